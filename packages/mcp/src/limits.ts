/** Most characters of a bought answer that one result shows, unless the options say otherwise. */
export const DEFAULT_MAX_DATA_CHARACTERS = 40_000;

/** Most characters of the schemas that `describe_service` shows. */
export const MAX_SCHEMA_CHARACTERS = 24_000;

/** Most operations that `describe_service` names. */
export const MAX_OPERATIONS = 300;

/** Most characters of a gateway's sentence that is passed on. */
export const MAX_SAID_CHARACTERS = 600;
