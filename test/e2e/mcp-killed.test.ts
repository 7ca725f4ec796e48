import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { eventually } from "@turnpike/testkit";
import { startHostileSeller } from "@turnpike/testkit/hostile-seller";
import { callTool, mcpFolder, openMcp, startMcp, textOf } from "../support/mcp-process.ts";

const CALL = { service_id: "eth", request: { method: "eth_blockNumber" } };

test("attack: the MCP command, killed between a purchase and its output: the next one has the answer, and pays nothing more", async () => {
  await using folder = await mcpFolder();
  // No pipe takes so much that is not read: the command is stopped within its output.
  const data = JSON.stringify("x".repeat(4 * 1_048_576));
  await using seller = await startHostileSeller({ kind: "answer", paid: (call) => call.sell(data) });
  const flags = ["--gateway", seller.url, "--max-answer", "2000000", "--per-session", "0.012"];
  const command = folder.command(`0x${"11".repeat(32)}`, ...flags);
  {
    await using first = startMcp(command);
    const opened = first.answer(1);
    openMcp(first);
    await opened;
    first.child.stdout?.pause();
    void callTool(first, 2, "call_service", CALL);
    await eventually("the purchase is in the journal", () =>
      globSync(join(folder.folder, "turnpike/mcp/*.jsonl")).some((file) =>
        readFileSync(file, "utf8").includes('"t":"end"'),
      ),
    );
    first.child.kill("SIGKILL");
    first.child.stdout?.destroy();
  }
  await using again = startMcp(command);
  assert.match(await again.started, /goes on with the session of .*, which was cut off with 0\.005000 USD used/);
  openMcp(again);
  const result = await callTool(again, 2, "call_service", CALL);
  assert.notEqual(result.isError, true, textOf(result).slice(0, 500));
  assert.equal(result.structuredContent.payment.resumed, true);
  assert.match(textOf(result), /^Charged once: 0\.005000 USD for eth\./);
  assert.deepEqual([seller.signatures().length, seller.chain.chargedUnits()], [1, 5_000n]);
  const spending = await callTool(again, 3, "get_spending", {});
  assert.equal(spending.structuredContent.session.used_usd, "0.005000");
  await callTool(again, 4, "call_service", CALL);
  assert.equal(seller.signatures().length, 2, "what was handed over is bought anew");
});
