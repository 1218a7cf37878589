/* Code in huge pages, with PAGELAB_CODE=huge. */
#ifndef PAGELAB_CODE_H
#define PAGELAB_CODE_H

/* Moves code that was loaded at the start, whole huge pages of it, into anonymous memory at the same
 * addresses. What cannot be moved stays as it is. */
void code_set_up(void);

#endif
