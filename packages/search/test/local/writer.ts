import { silentLog } from "@turnpike/base";
import { openIndexWriter } from "../../src/local/writer.ts";
import { documentOf } from "./index.ts";

// writes until it is killed, and says what is durable
const [file = "", round = ""] = process.argv.slice(2);
using writer = openIndexWriter({ file }, { log: silentLog });
for (let n = 0; n < 100_000; n++) {
  const urls = [0, 1, 2].map((part) => `https://a.test/${round}-${n}-${part}`);
  writer.put(
    urls.map((url) => documentOf({ url, title: url, text: `document ${url.split("/").at(-1)} `.repeat(200) })),
  );
  process.stdout.write(`${urls.join("\n")}\n`);
}
