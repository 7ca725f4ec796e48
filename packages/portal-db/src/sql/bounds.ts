/** Most bytes of an answer's rows as text, where a request says nothing else: 64 MiB. */
export const MAX_ANSWER_BYTES = 67_108_864;

/** Never set: the answer of a write that is too large reads it, and the database's error names it. */
export const TOO_LARGE_SETTING = "turnpike.answer_too_large";
