import assert from "node:assert/strict";
import { test } from "node:test";
import type { UpFile } from "@turnpike/devnet/files";
import { createProgress } from "./progress.ts";

test("a pipe gets the addresses and `ready`; --json one line without keys", () => {
  const up: UpFile = {
    gateway: "http://127.0.0.1:3069",
    relayDomain: "localhost",
    metrics: "http://127.0.0.1:9090",
    facilitator: "http://127.0.0.1:8402",
    settlement: { rpc: "http://127.0.0.1:8545", network: "eip155:84532", asset: "0xa", payTo: "0xb" },
    buyer: { address: "0xc", privateKey: "0xsecret" },
    services: ["eth"],
    suppliers: [],
    applications: [],
    gatewayAddress: "pokt1gateway",
    db: "http://127.0.0.1:3000",
    search: "http://127.0.0.1:8080",
    chain: {
      rpc: "http://127.0.0.1:26657",
      rest: "http://127.0.0.1:1317",
      grpc: "127.0.0.1:9090",
      metrics: "http://127.0.0.1:9094",
      chainId: "pocket",
      profile: "fast",
      faucet: { address: "pokt1", privateKey: "secret of the faucet" },
    },
    dbTokens: { admin: "secret of the admin", reader: "secret of the reader" },
  };
  const said = (json: boolean, isTTY: boolean): string => {
    let text = "";
    const output = { isTTY, write: (more: string) => (text += more) };
    const progress = createProgress({ json }, { output, errors: { write: () => true } });
    progress.part({ part: "anvil", kind: "ready", tookMs: 1_234 });
    progress.ready(up, "/x/up.json");
    return text;
  };
  assert.match(said(false, true), /local EVM chain ready \(1\.2 s\)/);
  const piped = said(false, false);
  assert.doesNotMatch(piped, /local chain ready|secret/);
  assert.match(piped, /gateway +http:\/\/127\.0\.0\.1:3069\n/);
  assert.equal(piped.trimEnd().split("\n").at(-1), "ready");
  const json = said(true, true);
  assert.doesNotMatch(json, /secret/);
  assert.equal((JSON.parse(json) as typeof up).gateway, up.gateway);
});
