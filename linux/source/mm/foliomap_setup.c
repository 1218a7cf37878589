// SPDX-License-Identifier: GPL-2.0
/* Exact folio accounting is switched on at boot: foliomap= and foliomap_ids=. */
#include <linux/foliomap.h>
#include <linux/init.h>
#include <linux/kstrtox.h>
#include <linux/mm.h>

/* Only before the first address space exists: nothing is counted twice. */
static int __init foliomap_setup(char *str)
{
	bool on;

	if (!str || kstrtobool(str, &on))
		return -EINVAL;
	if (on)
		static_branch_enable(&foliomap_key);
	else
		static_branch_disable(&foliomap_key);
	return 0;
}
early_param("foliomap", foliomap_setup);

static unsigned int foliomap_first_wanted __initdata = 1;

/* To test what happens when ids run out, and ids that take many words. */
static int __init foliomap_ids_setup(char *str)
{
	unsigned int first, last;
	int found = 0;

	if (str)
		found = sscanf(str, "%u-%u", &first, &last);
	switch (found) {
	case 1:
		last = first;
		first = 1;
		break;
	case 2:
		break;
	default:
		return -EINVAL;
	}
	if (!first || first > last || last > FOLIOMAP_MAX_ID)
		return -EINVAL;
	foliomap_first_wanted = first;
	foliomap_last_id = last;
	return 0;
}
early_param("foliomap_ids", foliomap_ids_setup);

/* The first address spaces are made before the IDA can get memory for large ids. */
static int __init foliomap_ids_init(void)
{
	foliomap_first_id = foliomap_first_wanted;
	return 0;
}
core_initcall(foliomap_ids_init);
