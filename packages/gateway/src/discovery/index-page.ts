/** What the index page tells. */
export interface IndexFacts {
  /** How many services are sold. */
  readonly sold: number;
}

const NAME = "Turnpike";
const DESCRIPTION = "Metered access to blockchain nodes, web search and other services, paid per request with x402.";

const LINKS = {
  services: "/services.json",
  openapi: "/openapi.json",
  x402: "/.well-known/x402",
  apiCatalog: "/.well-known/api-catalog",
  resources: "/discovery/resources",
  search: "/discovery/search?query=web+search",
  llms: "/llms.txt",
  llmsFull: "/llms-full.txt",
  health: "/health",
  ready: "/ready",
} as const;

/** `GET /` for programs. */
export function indexDocument(): unknown {
  return { name: NAME, description: DESCRIPTION, links: LINKS };
}

const ROWS: readonly (readonly [path: string, text: string])[] = [
  [LINKS.services, "every service with its price and methods, and whether it answers now"],
  [LINKS.llms, "the same in words, for language models"],
  [LINKS.llmsFull, "each service in full: methods, example request and answer"],
  [LINKS.openapi, "OpenAPI 3.0.3 description of the paid routes"],
  [LINKS.search, "finds paid routes by words"],
  [LINKS.resources, "the paid routes with their payment terms"],
  [LINKS.x402, "addresses of the paid routes, for indexers"],
  [LINKS.ready, "whether this gateway can sell now"],
];

/** `GET /` for people: no script, nothing from elsewhere. */
export function indexPage({ sold }: IndexFacts): string {
  const rows = ROWS.map(([path, text]) => `<li><a href="${path}">${path}</a>: ${text}</li>`);
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>${NAME}</title>
<meta name="description" content="${DESCRIPTION}">
<link rel="icon" href="/favicon.svg" type="image/svg+xml">
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:44rem;margin:3rem auto;padding:0 1rem;color:#1e293b;background:#fff}code{background:#f1f5f9;padding:.1em .3em}a{color:#1d4ed8}@media(prefers-color-scheme:dark){body{color:#e2e8f0;background:#0f172a}code{background:#1e293b}a{color:#93c5fd}}</style>
</head>
<body>
<h1>${NAME}</h1>
<p>${DESCRIPTION} ${sold} services are sold here. No account, no key.</p>
<h2>How to buy a call</h2>
<ol>
<li>Send <code>POST /v1/{service_id}</code> with a JSON body. The answer is <code>402</code>, with the terms.</li>
<li>Sign one of its <code>accepts</code>. Client libraries of x402 version 2 do this.</li>
<li>Send the identical request with the <code>PAYMENT-SIGNATURE</code> header. A call that fails is not charged.</li>
</ol>
<h2>Documents</h2>
<ul>
${rows.join("\n")}
</ul>
</body>
</html>
`;
}

/** Lets the page do nothing but show itself. */
export const INDEX_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src 'self'; frame-ancestors 'none'";

/** True when a client would rather have HTML than JSON: a browser. */
export function wantsHtml(accept: string | undefined): boolean {
  const weights = { html: 0, json: 0 };
  for (const part of (accept ?? "").toLowerCase().split(",").slice(0, 32)) {
    const [type = "", ...parameters] = part.split(";").map((text) => text.trim());
    const quality = Number(parameters.find((text) => text.startsWith("q="))?.slice(2) ?? "1");
    if (!Number.isFinite(quality)) continue;
    if (type === "text/html" || type === "application/xhtml+xml") weights.html = Math.max(weights.html, quality);
    if (type === "application/json") weights.json = Math.max(weights.json, quality);
  }
  return weights.html > weights.json;
}
