import { readdirSync, readFileSync } from "node:fs";
import { startUpstream, type Upstream } from "./upstream.ts";

/** One recorded question and answer. */
export interface Recorded {
  readonly file: string;
  readonly name: string;
  readonly request: {
    readonly method: string;
    readonly path: string;
    readonly body?: unknown;
    readonly headers?: unknown;
  };
  readonly status: number;
  readonly body: unknown;
}

const FOLDER = new URL("../../../test/spec/recorded-cosmos/", import.meta.url);

/** What a real node was asked and answered; see the README beside the files. */
export function readRecorded(kind: "rpc" | "rest"): readonly Recorded[] {
  return readdirSync(new URL(kind, FOLDER)).flatMap((file) => {
    const list = JSON.parse(readFileSync(new URL(`${kind}/${file}`, FOLDER), "utf8")) as readonly Recorded[];
    return list.map((one) => ({ ...one, file }));
  });
}

/** The bytes of a recorded body. */
export function recordedText(one: Recorded): string {
  const { body } = one;
  return typeof body === "object" && body !== null && "$text" in body ? String(body.$text) : JSON.stringify(body);
}

function keyOf(verb: string, path: string, body: unknown): string {
  // Decoded: the recorder sent `"` and its like as they are, and a client may not.
  if (verb === "GET") return `GET ${decodeURIComponent(path)}`;
  const { method, params } = (typeof body === "object" && body !== null ? body : {}) as Readonly<
    Record<string, unknown>
  >;
  return `POST ${JSON.stringify([method, params])}`;
}

/** A stand-in for a Cosmos-style node: gives the recorded answers of a real one, with the id that it was asked with. */
export async function startRecordedNode(): Promise<Upstream> {
  const answers = new Map<string, Recorded>();
  for (const one of [...readRecorded("rpc"), ...readRecorded("rest")]) {
    const { method, path, body, headers } = one.request;
    const key = keyOf(method, path, body);
    if (headers === undefined && !answers.has(key)) answers.set(key, one);
  }
  return startUpstream((call, response) => {
    const asked = call.text === "" ? undefined : (JSON.parse(call.text) as unknown);
    const found = answers.get(keyOf(call.verb, call.path, asked));
    if (found === undefined) {
      response.writeHead(404, { "content-type": "text/plain" }).end("404 page not found\n");
      return;
    }
    const text = recordedText(found);
    const isRpc = call.verb === "POST" && text.includes('"id":1,');
    response.writeHead(found.status, { "content-type": "application/json" });
    response.end(isRpc ? text.replace('"id":1,', `"id":${call.id},`) : text);
  });
}
