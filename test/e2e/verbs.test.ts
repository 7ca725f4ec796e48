import assert from "node:assert/strict";
import { once } from "node:events";
import { type IncomingMessage, request } from "node:http";
import { after, suite, test } from "node:test";
import { LISTENERS, type Place } from "./listeners.ts";

/** Verbs that none of our servers has. `TRACE` would show a page its own credentials; the others are WebDAV's and caches'. */
const VERBS = ["TRACE", "PROPFIND", "LOCK", "REPORT", "PURGE", "M-SEARCH", "QUERY"];
const owned = new AsyncDisposableStack();
after(() => owned.disposeAsync());

/** Asks by node's own client: `fetch` sends no TRACE. */
async function ask(
  url: string,
  verb: string,
  { path, headers = {} }: Place,
  body?: string,
): Promise<readonly [number | undefined, string | undefined]> {
  const { hostname, port } = new URL(url);
  const more = body === undefined ? {} : { "content-type": "application/json" };
  const sent = request({ hostname, port, path, method: verb, headers: { ...more, ...headers }, agent: false });
  sent.end(body);
  const [answer] = (await once(sent, "response")) as [IncomingMessage];
  answer.resume();
  await once(answer, "end");
  return [answer.statusCode, answer.headers.allow];
}

suite("verbs that no server has are answered 405, and `Allow` names those of the path", { timeout: 300_000 }, () => {
  for (const [name, listener] of Object.entries(LISTENERS)) {
    test(name, async () => {
      const { url, places } = await listener.start(owned);
      // None of suppliers, which answer every verb, and of gRPC.
      const found: string[] = [];
      const wanted: string[] = [];
      for (const place of places) {
        for (const verb of VERBS) {
          // The parser of Node 26 takes a body with any of them but TRACE.
          for (const body of verb === "TRACE" ? [undefined] : [undefined, "{}"]) {
            const what = `${verb} ${place.path}${body === undefined ? "" : " with a body"}`;
            const [status, allow] = await ask(url, verb, place, body);
            found.push(`${what}: ${status} ${allow}`);
            wanted.push(`${what}: 405 ${place.allow}`);
          }
        }
      }
      assert.deepEqual(found, wanted);
    });
  }
});
