import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { callTool, type McpFolder, mcpFolder, openMcp, startMcp, textOf } from "../support/mcp-process.ts";
import { type Ground, newBuyer, startGround } from "../support/network.ts";
import { ethAt, openGateway, startStandIn, untilServed } from "./support.ts";

const GAS_PRICE = { service_id: "eth", request: { method: "eth_gasPrice" } };

suite("the MCP command, killed and called wrongly", () => {
  let ground: Ground;
  let folder: McpFolder;
  before(async () => {
    [ground, folder] = await Promise.all([startGround(), mcpFolder()]);
  });
  after(async () => {
    await folder?.[Symbol.asyncDispose]();
    await ground?.[Symbol.asyncDispose]();
  });

  test("attack: killed after signing and started again: the budget and the payment are there, and it is paid once", async () => {
    await using held = await startStandIn(true);
    await using slow = await openGateway(ground, { sections: { suppliers: ethAt(held.url) } });
    await untilServed(slow, "eth");
    const { key, address } = await newBuyer(ground);
    const command = folder.command(key, "--gateway", slow.url, "--per-session", "0.012");
    {
      await using first = startMcp(command);
      openMcp(first);
      void callTool(first, 2, "call_service", GAS_PRICE);
      await held.held;
      first.child.kill("SIGKILL");
      await first.ended;
    }
    held.release();
    await using again = startMcp(command);
    assert.match(await again.started, /goes on with the session of .*, which was cut off with 0\.005000 USD used/);
    openMcp(again);
    const spending = await callTool(again, 2, "get_spending", {});
    assert.equal(spending.structuredContent.open_payment_count, 1);
    assert.equal(spending.structuredContent.session.used_usd, "0.005000");
    const resumed = await callTool(again, 3, "resume_payment", GAS_PRICE);
    assert.notEqual(resumed.isError, true, textOf(resumed));
    assert.equal(resumed.structuredContent.payment.resumed, true);
    assert.equal(await ground.balance(address), 95_000n);
    await slow.assertSettled(1);
    again.child.stdin?.end();
    assert.equal(await again.ended, 0);
    await using third = startMcp(command);
    assert.match(await third.started, /goes on with the session of .*, which ended with 0\.005000 USD used/);
  });

  test("wrong arguments are reported on standard error, and standard output stays empty", async () => {
    const { key } = await newBuyer(ground);
    const cases = [
      [["--per-call", "-1"], /--per-call/],
      [["--per-session", "1e3"], /--per-session/],
      [["--http", "--host", "0.0.0.0", "--port", "0"], /a token is needed/],
      [["--http", "--port", "70000"], /--port/],
      [["--journal", "/dev/null"], /SPEND_JOURNAL/],
    ] as const;
    await Promise.all(
      cases.map(async ([wrong, said]) => {
        await using mcp = startMcp(folder.command(key, "--gateway", "http://127.0.0.1:1", ...wrong));
        assert.notEqual(await mcp.ended, 0, wrong.join(" "));
        assert.match(mcp.stderr.join("\n"), said);
        assert.deepEqual(mcp.stdout, []);
      }),
    );
  });
});
