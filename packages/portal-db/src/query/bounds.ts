/** Characters of a query string. Long `in.(…)` lists fit. */
export const MAX_QUERY_LENGTH = 65_536;
/** Parameters of a query string. */
export const MAX_PARAMETERS = 200;
/** Items of `select=` on all levels together. */
export const MAX_SELECT_ITEMS = 200;
/** Embedded resources on all levels together. */
export const MAX_EMBEDS = 20;
/** Levels of embedding below the root. */
export const MAX_EMBED_DEPTH = 6;
/** Levels of `and`/`or` in one another. */
export const MAX_LOGIC_DEPTH = 10;
/** Conditions on all levels together. */
export const MAX_CONDITIONS = 200;
/** Values of one `in.(…)`. */
export const MAX_LIST_VALUES = 10_000;
/** Terms of one `order=`. */
export const MAX_ORDER_TERMS = 32;
/** Steps of one JSON path. */
export const MAX_JSON_STEPS = 16;
/** Names of `columns=` or `on_conflict=`. */
export const MAX_COLUMNS = 200;
/** Bytes of a name: PostgreSQL cuts longer ones off, and two names could become one. */
export const MAX_NAME_BYTES = 63;
/** Characters of a regular expression (`match`, `imatch`). */
export const MAX_PATTERN_LENGTH = 500;
