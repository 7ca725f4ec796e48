import assert from "node:assert/strict";
import { suite, test } from "node:test";
import type { ServiceId } from "@turnpike/base";
import { loadConfig } from "@turnpike/config";
import { type ListedChain, publicEndpoints, publicSuppliers } from "./public-endpoints.ts";

const service = (id: string, evmChainId: number | undefined) => ({ id: id as ServiceId, evmChainId });
const chain = (id: number, name: string, http: readonly string[], more: Partial<ListedChain> = {}): ListedChain => ({
  id,
  name,
  rpcUrls: { default: { http } },
  ...more,
});

suite("public end points", () => {
  test("each is one of the service's own chain, by id, name and whether it is a test network", () => {
    const found = publicEndpoints(
      [service("base", 8453), service("hyper", 999), service("sepolia-testnet", 11), service("solana", undefined)],
      [
        chain(999, "Some test network", ["https://test.example/"], { testnet: true }),
        chain(999, "Hyper", ["https://hyper.example/evm"]),
        chain(999, "Another with that id", ["https://other.example/"]),
        chain(11, "Sepolia", ["https://sepolia.example/"], { testnet: true }),
        chain(8453, "Base", ["https://base.example/", "http://plain.example/", "https://127.0.0.1/"]),
        chain(8453, "Base", ["https://base.example/", "https://base-two.example/"], {
          rpcUrls: { default: { http: ["https://base-two.example/"], webSocket: ["wss://base.example/ws"] } },
        }),
      ],
    );
    assert.deepEqual(found, {
      base: [
        { operator: "base.example", urls: { json_rpc: "https://base.example/" } },
        { operator: "base-two.example", urls: { json_rpc: "https://base-two.example/" } },
        { operator: "base.example", urls: { websocket: "wss://base.example/ws" } },
      ],
      hyper: [{ operator: "hyper.example", urls: { json_rpc: "https://hyper.example/evm" } }],
      "sepolia-testnet": [{ operator: "sepolia.example", urls: { json_rpc: "https://sepolia.example/" } }],
    });
  });

  test("none for what runs on this machine, nor for services that share a chain id", () => {
    const chains = [chain(1, "Ethereum", ["https://one.example/"]), chain(7, "Seven", ["https://seven.example/"])];
    assert.deepEqual(publicEndpoints([service("eth", 7), service("a", 1), service("b", 1)], chains), {});
  });

  test("those of the list make a valid configuration, for more than forty networks of the catalogue", async () => {
    const suppliers = await publicSuppliers();
    const config = loadConfig({ env: {}, overrides: { suppliers } });
    assert.ok(Object.keys(config.suppliers).length > 40, Object.keys(config.suppliers).join(" "));
    for (const { endpoints } of Object.values(config.suppliers)) {
      for (const { urls } of endpoints) {
        for (const url of Object.values(urls)) assert.match(url, /^(https|wss):/);
      }
    }
  });
});
