/** Title of the descriptions. */
export const API_TITLE = "Turnpike management data";

/** What the descriptions say of the API as a whole. */
export const API_DESCRIPTION =
  "Networks, organizations, portal accounts and portal applications. It speaks as PostgREST does. Every request needs a bearer token.";

/** Version of the API that is described. */
export const DOCUMENT_VERSION = "1.0.0";
