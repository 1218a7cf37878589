"""The Jinja environment of every page: a package's templates, and those that all pages share."""

import re

import jinja2
from markupsafe import Markup, escape

# Pages extend a layout: a whole page, or the main part of one for a notebook.
PAGE = "page.html"
FRAGMENT = "fragment.html"


def environment(package: str) -> jinja2.Environment:
    """For `templates/` of a package; what a template does not know is an error."""
    made = jinja2.Environment(
        loader=jinja2.ChoiceLoader(
            [jinja2.PackageLoader(package), jinja2.PackageLoader("pagelab.report")]
        ),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["unbroken"] = _unbroken
    made.filters["nested_css"] = _nested_css
    return made


def _unbroken(text: str) -> Markup:
    """Keeps figures and their units on one line, and options with what is given to them."""
    joined = re.sub(r"(?<=\d) (?=[%\N{PLUS-MINUS SIGN}A-Z])", "\N{NO-BREAK SPACE}", text)
    option = r"--[a-z][a-z-]*(?: [\dA-Z][\w,]*)?"
    return Markup(re.sub(option, r'<span class="option">\g<0></span>', str(escape(joined))))


def _nested_css(sheet: str) -> Markup:
    """A page's style sheet, to be nested in a rule for an element that stands for the page."""
    plain = str(sheet)  # Markup would escape what is put in.
    return Markup(re.sub(r"^(\s*)(?::root|body) \{", r"\1& {", plain, flags=re.MULTILINE))
