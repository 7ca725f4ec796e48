import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, suite, test } from "node:test";
import { base64ToBytes, bytesToBase64, isAppError } from "@turnpike/base";
import { decodeMessage, encodeMessage, fromApiJson, tx as txs } from "@turnpike/proto";
import { runCommand } from "../../../test/chain-part.ts";

const ROOT = new URL("../../../../../test/spec/recorded-chain/txs/", import.meta.url);
const home = mkdtempSync(join(tmpdir(), "turnpike-tx-"));
mkdirSync(join(home, "keys"));
after(() => rmSync(home, { recursive: true, force: true }));

interface Recorded {
  readonly name: string;
  readonly cli?: readonly string[];
  readonly config_yaml?: string;
  readonly signer: { readonly name: string; readonly address: string };
  readonly tx_bytes: string;
  readonly tx_json: { readonly body: { readonly messages: readonly unknown[] } };
}

const recorded = readdirSync(ROOT)
  .filter((name) => name.endsWith(".json") && name !== "index.json")
  .map((name) => JSON.parse(readFileSync(new URL(name, ROOT), "utf8")) as Recorded);

/** The flags of the real command's words, for ours, with its stake file in our folder. */
function words({ name, cli = [], config_yaml: yaml }: Recorded): string[] {
  const [, ...args] = cli;
  const at = args.indexOf("--config");
  if (at < 0 || yaml === undefined) return args;
  const file = join(home, `${name}.yaml`);
  writeFileSync(file, yaml);
  return args.with(at + 1, file);
}

suite("the recorded words of the network's own command make the recorded messages", () => {
  const withWords = recorded.filter(({ cli }) => cli !== undefined);
  assert.ok(withWords.length >= 18, `${withWords.length}`);
  for (const one of withWords) {
    test(one.name, async () => {
      const { name, address } = one.signer;
      writeFileSync(join(home, "keys", `${name}.json`), JSON.stringify({ name, address }));
      const { out, error } = await runCommand([...words(one), "--generate-only", "--offline", "--home", home]);
      assert.equal(error, undefined);
      const made = JSON.parse(out) as { body: { messages: unknown[] } };
      assert.deepEqual(made.body.messages, one.tx_json.body.messages);
      const read = fromApiJson(txs.TxSchema, made);
      const real = decodeMessage(txs.TxRawSchema, base64ToBytes(one.tx_bytes) ?? new Uint8Array(0));
      assert.ok(read.ok && real.ok && read.message.body !== undefined);
      const body = encodeMessage(txs.TxBodySchema, read.message.body);
      assert.equal(bytesToBase64(body), bytesToBase64(real.message.bodyBytes));
      assert.deepEqual(read.message.signatures, []);
    });
  }
});

test("messages of a file stand in an exec as recorded, alone, in a list and in a transaction", async () => {
  const params = recorded.filter(({ name }) => `${name}`.startsWith("params-"));
  assert.ok(params.length > 5);
  for (const { name, signer, tx_json: json } of params) {
    writeFileSync(join(home, "keys", `${signer.name}.json`), JSON.stringify(signer));
    const [exec] = json.body.messages as { msgs: unknown[] }[];
    const inner = exec?.msgs ?? [];
    for (const content of [inner.length === 1 ? inner[0] : inner, inner, { body: { messages: inner } }]) {
      const file = join(home, "messages.json");
      writeFileSync(file, JSON.stringify(content));
      const args = ["tx", "authz", "exec", file, "--from", signer.name, "--home", home, "--generate-only", "--offline"];
      const { out, error } = await runCommand(args);
      assert.equal(error, undefined, name);
      assert.deepEqual((JSON.parse(out) as typeof json).body.messages, json.body.messages, name);
    }
  }
});

const OWNER = "pokt1zfcz8mjey59hldwwdvu7782cdhf2jj0sx524cp";

/** What a command says of a stake file. */
async function faultOf(command: readonly string[], yaml: string): Promise<string> {
  const file = join(home, "stake.yaml");
  writeFileSync(file, yaml);
  const flags = ["--config", file, "--from", OWNER, "--generate-only", "--offline", "--home", home];
  const { error } = await runCommand(["tx", ...command, ...flags]);
  assert.ok(isAppError(error, "CONFIG_INVALID"), String(error));
  return error.message.replace(`${file}: `, "");
}

test("a stake file that is wrong is refused by path, with what fixes it", async () => {
  const app = ["application", "stake-application"];
  const stake = "stake_amount: 1000upokt\n";
  const rows: readonly (readonly [readonly string[], string, RegExp])[] = [
    [app, "", /^the file: expected keys with values/],
    [app, "a: [", /Flow sequence/],
    [app, `${stake}${stake}service_ids: [a]`, /Map keys must be unique/],
    [app, "stake_ammount: 5upokt", /^stake_ammount: there is no such key; did you mean stake_amount\?$/],
    [app, `${stake}zzzzzz: 5`, /^zzzzzz: there is no such key; the keys are stake_amount, service_ids/],
    [app, stake, /^the file: service_ids is missing$/],
    [app, "service_ids: [eth]", /^the file: stake_amount is missing$/],
    [app, `${stake}service_ids: eth`, /^service_ids: expected a list, each item behind "- ", not "eth"$/],
    [app, `${stake}service_ids: [eth, base]`, /^service_ids: expected exactly one service, not 2$/],
    [app, `${stake}service_ids: ["a b"]`, /^service_ids\[0\]: "a b" is no id of a service/],
    [app, "stake_amount: 1000\nservice_ids: [eth]", /^stake_amount: expected an amount with its denomination, such as/],
    [app, "stake_amount: 0upokt\nservice_ids: [eth]", /^stake_amount: expected at least 1upokt$/],
    [app, "stake_amount: 5pokt\nservice_ids: [eth]", /^stake_amount: expected upokt, not pokt$/],
    [app, `${stake}service_ids: [eth]\ngateway_addresses: [pokt1x]`, /^gateway_addresses\[0\]: "pokt1x" is no address/],
    [["gateway", "stake-gateway"], "stake: 5upokt", /^stake: there is no such key; the keys are stake_amount$/],
  ];
  const supplier = (services: string): string => `owner_address: ${OWNER}\n${stake}services:\n${services}`;
  const service =
    "  - service_id: eth\n    endpoints:\n      - publicly_exposed_url: http://a:1\n        rpc_type: JSON_RPC\n";
  const more: readonly (readonly [string, RegExp])[] = [
    [stake, /^the file: owner_address is missing$/],
    [supplier("  - service_id: eth"), /^services\[0\]: endpoints is missing$/],
    [supplier("  - service_id: eth\n    endpoints: []"), /^services\[0\]\.endpoints: expected at least one endpoint$/],
    [
      supplier(service.replace("JSON_RPC", "JSONRPC")),
      /^services\[0\]\.endpoints\[0\]\.rpc_type: did you mean JSON_RPC\?$/,
    ],
    [
      supplier(service.replace("http://a:1", "a:1")),
      /^services\[0\]\.endpoints\[0\]\.publicly_exposed_url: "a:1" is no/,
    ],
    [
      supplier(service.replace("rpc_type", "rpctype")),
      /^services\[0\]\.endpoints\[0\]\.rpctype: there is no such key; did you mean rpc_type\?$/,
    ],
    [
      supplier(`${service}    rev_share_percent: { ${OWNER}: 99 }`),
      /^services\[0\]\.rev_share_percent: the shares must add up to 100, not 99$/,
    ],
    [
      supplier(`${service}    rev_share_percent: { ${OWNER}: 99.5 }`),
      /^services\[0\]\.rev_share_percent\.pokt1\w+: expected a whole number from 1 to 100/,
    ],
    [
      supplier(`${service}        config: { timout: "7" }`),
      /^services\[0\]\.endpoints\[0\]\.config\.timout: there is no such key; did you mean timeout\?$/,
    ],
  ];
  for (const [command, yaml, wanted] of rows) assert.match(await faultOf(command, yaml), wanted, yaml);
  for (const [yaml, wanted] of more) assert.match(await faultOf(["supplier", "stake-supplier"], yaml), wanted, yaml);
});
