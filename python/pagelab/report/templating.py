"""The Jinja environment of every page: a package's templates, and those that all pages share."""

import jinja2


def environment(package: str) -> jinja2.Environment:
    """For `templates/` of a package; what a template does not know is an error."""
    return jinja2.Environment(
        loader=jinja2.ChoiceLoader(
            [jinja2.PackageLoader(package), jinja2.PackageLoader("pagelab.report")]
        ),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
