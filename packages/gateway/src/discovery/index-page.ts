/** What the index page says of this gateway. */
interface IndexFacts {
  /** How many services are sold. */
  readonly sold: number;
  /** How many services the free relay has. */
  readonly free: number;
}

const NAME = "Turnpike";
const DESCRIPTION = "Metered access to blockchain nodes, web search and other services, paid per request with x402.";
const FREE_DESCRIPTION = "JSON-RPC on many networks, free within limits, one host a network.";

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
export function indexDocument({ sold }: IndexFacts): unknown {
  if (sold > 0) return { name: NAME, description: DESCRIPTION, links: LINKS };
  const { services, apiCatalog, llms, llmsFull, health, ready } = LINKS;
  return { name: NAME, description: FREE_DESCRIPTION, links: { services, apiCatalog, llms, llmsFull, health, ready } };
}

type Row = readonly [path: string, text: string];

const TEXT_ROWS: readonly Row[] = [
  [LINKS.llms, "the same in words, for language models"],
  [LINKS.llmsFull, "each service in full: methods, example request and answer"],
];
const FREE_ROWS: readonly Row[] = [
  [LINKS.services, "every service with its address and methods, and whether it answers now"],
  ...TEXT_ROWS,
  [LINKS.ready, "whether this gateway can answer now"],
];
const ROWS: readonly Row[] = [
  [LINKS.services, "every service with its price and methods, and whether it answers now"],
  ...TEXT_ROWS,
  [LINKS.openapi, "OpenAPI 3.0.3 description of the paid routes"],
  [LINKS.search, "finds paid routes by words"],
  [LINKS.resources, "the paid routes with their payment terms"],
  [LINKS.x402, "addresses of the paid routes, for indexers"],
  [LINKS.ready, "whether this gateway can sell now"],
];

const HOW_TO_BUY = `<h2>How to buy a call</h2>
<ol>
<li>Send <code>POST /v1/{service_id}</code> with a JSON body. The answer is <code>402</code>, with the terms.</li>
<li>Sign one of its <code>accepts</code>. Client libraries of x402 version 2 do this.</li>
<li>Send the identical request with the <code>PAYMENT-SIGNATURE</code> header. A call that fails is not charged.</li>
</ol>`;
const HOW_TO_READ = `<h2>How to call</h2>
<p>Send JSON-RPC to a network's own host, its <code>relayUrl</code> in <a href="${LINKS.services}">${LINKS.services}</a>, or to
<code>POST /relay/{service_id}</code> here.</p>`;

/** `GET /` for people: no script, nothing from elsewhere. */
export function indexPage({ sold, free }: IndexFacts): string {
  const isFree = sold === 0;
  const description = isFree ? FREE_DESCRIPTION : DESCRIPTION;
  const rows = (isFree ? FREE_ROWS : ROWS).map(([path, text]) => `<li><a href="${path}">${path}</a>: ${text}</li>`);
  const counts = isFree ? `${free} services are here, and nothing is sold.` : `${sold} services are sold here.`;
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>${NAME}</title>
<meta name="description" content="${description}">
<link rel="icon" href="/favicon.svg" type="image/svg+xml">
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:44rem;margin:3rem auto;padding:0 1rem;color:#1e293b;background:#fff}code{background:#f1f5f9;padding:.1em .3em}a{color:#1d4ed8}@media(prefers-color-scheme:dark){body{color:#e2e8f0;background:#0f172a}code{background:#1e293b}a{color:#93c5fd}}</style>
</head>
<body>
<h1>${NAME}</h1>
<p>${description} ${counts} No account, no key.</p>
${isFree ? HOW_TO_READ : HOW_TO_BUY}
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
