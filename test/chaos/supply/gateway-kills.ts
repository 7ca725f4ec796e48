import assert from "node:assert/strict";
import { join } from "node:path";
import { readSupplyReport } from "@turnpike/supplier";
import { rpcAnswer, startEvmUpstream } from "@turnpike/testkit";
import { startEconomy } from "../../e2e/economy-rig.ts";
import type { ChaosPart } from "../chaos.ts";
import { LineProcess } from "./line-process.ts";

const SIZES = { short: { rounds: 3 }, full: { rounds: 20 } } as const;
/** Calls of a gateway: as many as this reach the back-end before it is killed, at the most. */
const CALLS = 12;
const UPOKT_PER_RELAY = 4_200n;

/**
 * A gateway is killed while relays are under way. What suppliers have served is claimed, proven and settled, and the
 * gateway that is started next serves at once, without a block in between.
 */
export const gatewayKills: ChaosPart = async ({ size, progress }) => {
  await using stack = new AsyncDisposableStack();
  let onCall: () => void = () => {};
  const node = stack.use(
    await startEvmUpstream((asked, response) => {
      if (asked.method === "eth_getBalance") onCall();
      response.end(rpcAnswer(asked, '"result":"0x5"'));
    }),
  );
  const economy = stack.use(
    await startEconomy({
      operators: ["killed one", "killed two"],
      backends: { json_rpc: { url: node.url } },
      chain: { params: { proof: { proof_request_probability: 1 } } },
    }),
  );
  const start = async (): Promise<LineProcess> => {
    const gateway = new LineProcess(join(import.meta.dirname, "gateway-child.ts"), [economy.chain.rpcUrl]);
    stack.defer(() => gateway.kill());
    assert.ok(await gateway.said((line) => line === "ready"));
    return gateway;
  };
  const { rounds } = SIZES[size];
  let answered = 0;
  let gateway = await start();
  for (let round = 0; round < rounds; round++) {
    const killed = gateway;
    let left = 1 + ((round * 5) % CALLS);
    onCall = () => {
      if (--left === 0) void killed.kill();
    };
    killed.write(`${CALLS}`);
    assert.equal(await killed.said((line) => line === "called"), false, "the gateway was not killed");
    onCall = () => {};
    gateway = await start();
    gateway.write(`${CALLS}`);
    assert.ok(await gateway.said((line) => line === "called"));
    const answers = [...killed.lines, ...gateway.lines].filter((line) => line.startsWith("answer "));
    assert.deepEqual([...new Set(answers)], ["answer ok"]);
    answered += gateway.lines.filter((line) => line === "answer ok").length;
    gateway.lines.length = 0;
    answered += killed.lines.filter((line) => line === "answer ok").length;
    await economy.step();
  }
  progress(`${rounds} kills`);
  await gateway.kill();
  for (let blocks = 0; blocks < 30; blocks++) await economy.step();
  const { operators } = await readSupplyReport(economy.stateFolder);
  const sum = (read: (all: (typeof operators)[number]["all"]) => bigint): number =>
    operators.reduce((total, { all }) => total + Number(read(all)), 0);
  const served = sum(({ relays }) => BigInt(relays.served));
  assert.deepEqual(
    operators.map(({ all }) => all.lost),
    operators.map(() => ({})),
  );
  assert.ok(served >= answered, `${answered} answered, ${served} served`);
  assert.equal(
    sum(({ relays }) => BigInt(relays.settled)),
    served,
  );
  assert.equal(BigInt(sum(({ upokt }) => BigInt(upokt.settled))), BigInt(served) * UPOKT_PER_RELAY);
  return {
    figures: [
      { what: "kills", value: rounds, unit: "" },
      { what: "calls that clients had answers to", value: answered, unit: "" },
      { what: "relays that were served, claimed, proven and settled", value: served, unit: "" },
    ],
  };
};
