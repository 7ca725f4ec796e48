import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { killProgram } from "@turnpike/testkit";

const PROGRAM = ["chromium", "chromium-browser", "google-chrome"].find(
  (name) => spawnSync(name, ["--version"]).status === 0,
);

/** What a test gives as `skip`: a reason, or false when the program is there. */
export const withoutChromium: string | false = PROGRAM === undefined ? "chromium is not installed" : false;

/** The name of the attacker's page: whatever it says, its name server points it here. */
export const EVIL_HOST = "evil.example";

const FLAGS = [
  "--headless=new",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-dev-shm-usage",
  "--disable-background-networking",
  "--no-first-run",
  // Asks the user first in newer Chromium. Other browsers have no such question, and users may answer yes.
  "--disable-features=LocalNetworkAccessChecks,LocalNetworkAccessChecksWebSockets",
];

/**
 * Opens a page of {@link EVIL_HOST} in Chromium, runs a script in it and gives what the script resolves with. The page is
 * at `http://evil.example:<port>/page`, and everything else of that origin comes from 127.0.0.1 at that port, as after its
 * name was pointed here (DNS rebinding). A proxy stands for the name server.
 */
export async function runInPage(port: number, script: string): Promise<unknown> {
  const folder = mkdtempSync(join(tmpdir(), "turnpike-chromium-"));
  const report = Promise.withResolvers<string>();
  const serve = (incoming: IncomingMessage, response: ServerResponse): void => {
    const url = new URL(incoming.url ?? "/", "http://none");
    if (url.hostname !== EVIL_HOST) {
      response.writeHead(404).end();
    } else if (url.pathname === "/page") {
      response.writeHead(200, { "content-type": "text/html" }).end(pageOf(script));
    } else if (url.pathname === "/report") {
      let text = "";
      incoming.on("data", (part: Buffer) => (text += part.toString()));
      incoming.on("end", () => {
        response.end();
        report.resolve(text);
      });
    } else {
      const { method, headers } = incoming;
      const options = { host: "127.0.0.1", port: url.port, path: url.pathname + url.search, method, headers };
      const asked = request(options, (answer) => {
        response.writeHead(answer.statusCode ?? 502, answer.headers);
        answer.pipe(response);
      });
      asked.on("error", () => response.destroy());
      incoming.pipe(asked);
    }
  };
  const proxy = createServer(serve);
  proxy.on("connect", (incoming: IncomingMessage, socket) => {
    const [host, to] = (incoming.url ?? "").split(":");
    if (host !== EVIL_HOST) {
      socket.end("HTTP/1.1 404 Not Found\r\n\r\n");
      return;
    }
    const target = connect(Number(to), "127.0.0.1", () => {
      socket.write("HTTP/1.1 200 OK\r\n\r\n");
      target.pipe(socket).pipe(target);
    });
    target.on("error", () => socket.destroy());
    socket.on("error", () => target.destroy());
  });
  proxy.listen(0, "127.0.0.1");
  await once(proxy, "listening");
  const { port: proxyPort } = proxy.address() as AddressInfo;
  const args = [...FLAGS, `--proxy-server=127.0.0.1:${proxyPort}`, `--user-data-dir=${folder}`];
  const child = spawn(PROGRAM ?? "chromium", [...args, `http://${EVIL_HOST}:${port}/page`], { stdio: "ignore" });
  child.once("exit", () => report.reject(new TypeError("chromium ended before the page reported")));
  child.once("error", (error) => report.reject(error));
  try {
    return JSON.parse(await report.promise) as unknown;
  } finally {
    await killProgram(child);
    proxy.closeAllConnections();
    proxy.close();
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

const pageOf = (script: string): string => `<!DOCTYPE html><script type="module">
const run = async () => { ${script} };
const found = await run().catch((error) => ({ error: String(error) }));
await fetch("/report", { method: "POST", body: JSON.stringify(found ?? null) });
</script>`;
