import { createServer } from "node:http";
import { AppError } from "@turnpike/base";
import { serveParent } from "../../lib/child.ts";
import { createStandInChain } from "../stand-in.ts";

interface Call {
  readonly id: unknown;
  readonly method: string;
  readonly params: readonly unknown[];
}

/** Operations of this child: the stand-in chain over HTTP. */
export type StandInOperations = { readonly start: (params: undefined) => Promise<{ readonly url: string }> };

const chain = createStandInChain();
const answer = ({ id, method, params }: Call): unknown => ({ jsonrpc: "2.0", id, result: chain(method, params) });

const server = createServer((request, response) => {
  const parts: Buffer[] = [];
  request.on("data", (part: Buffer) => parts.push(part));
  request.on("end", () => {
    const asked = JSON.parse(Buffer.concat(parts).toString()) as Call | Call[];
    const text = JSON.stringify(Array.isArray(asked) ? asked.map(answer) : answer(asked));
    response.writeHead(200, { "content-type": "application/json", "content-length": Buffer.byteLength(text) });
    response.end(text);
  });
});

serveParent<StandInOperations>({
  async start() {
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const address = server.address();
    if (address === null || typeof address === "string") throw new AppError("INTERNAL");
    return { url: `http://127.0.0.1:${address.port}` };
  },
});
