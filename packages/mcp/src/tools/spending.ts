import type { McpServer } from "@modelcontextprotocol/server";
import { visibleLine } from "@turnpike/base";
import { z } from "zod";
import { usdOf } from "../mcp-session.ts";
import { toolResult } from "../result.ts";
import type { McpServerOptions, ToolModules } from "../types.ts";
import { addTool } from "./tool.ts";

const MAX_OPEN = 50;

const SPENDING = z.object({
  gateway: z.string(),
  buyer: z.string(),
  per_call_usd: z.string(),
  session: z.object({
    budget_usd: z.string(),
    used_usd: z.string(),
    held_usd: z.string().describe("Part of used_usd that is signed and not charged so far"),
    remaining_usd: z.string(),
  }),
  all_sessions: z.object({
    budget_usd: z.string().optional(),
    charged_usd: z.string(),
    held_usd: z.string(),
    calls: z.number(),
  }),
  open_payments: z.array(
    z.object({
      payment_id: z.string(),
      service_id: z.string(),
      usd: z.string(),
      signed_at: z.string(),
      known_here: z.boolean().describe("true: resume_payment needs only the payment_id"),
    }),
  ),
  open_payment_count: z.number(),
});

/** Adds `get_spending`. */
export function addSpendingTool(server: McpServer, opts: McpServerOptions, modules: ToolModules): void {
  addTool(server, modules, {
    name: "get_spending",
    title: "Get the spending",
    description:
      "Returns the budget of one call, of this session and of all sessions, what is spent of it, and which payments are open: " +
      "signed, with an outcome that is not known. Costs nothing.",
    input: z.object({}),
    output: SPENDING,
    annotations: { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false },
    async run() {
      const { session } = modules;
      const { perSessionMicroUsd, usedMicroUsd, heldMicroUsd, remainingMicroUsd, perCallMicroUsd } = session.spending();
      const sums = session.journal.sums();
      const open = session.journal.open();
      const listed = open.slice(0, MAX_OPEN).map((one) => ({
        payment_id: one.requestHash,
        service_id: visibleLine(one.service.split(/[/?]/, 1)[0] ?? "", 64),
        usd: one.usd,
        signed_at: one.signedAt,
        known_here: session.sentRequest(one.requestHash) !== undefined,
      }));
      const facts: z.output<typeof SPENDING> = {
        gateway: opts.gateway,
        buyer: opts.buyer,
        per_call_usd: usdOf(perCallMicroUsd),
        session: {
          budget_usd: usdOf(perSessionMicroUsd),
          used_usd: usdOf(usedMicroUsd),
          held_usd: usdOf(heldMicroUsd),
          remaining_usd: usdOf(remainingMicroUsd),
        },
        all_sessions: {
          ...(opts.totalUsd === undefined ? {} : { budget_usd: opts.totalUsd }),
          charged_usd: usdOf(sums.chargedMicroUsd),
          held_usd: usdOf(sums.openMicroUsd),
          calls: sums.calls,
        },
        open_payments: listed,
        open_payment_count: open.length,
      };
      return toolResult({ own: spendingText(facts), structured: facts });
    },
  });
}

function spendingText(facts: z.output<typeof SPENDING>): string {
  const { session, all_sessions: all, open_payments: open, open_payment_count: openCount } = facts;
  const isHeld = session.held_usd !== usdOf(0n);
  const lines = [
    `One call may cost ${facts.per_call_usd} USD.`,
    `This session: ${session.used_usd} of ${session.budget_usd} USD used, ${session.remaining_usd} USD left` +
      (isHeld ? `; ${session.held_usd} USD of it are signed and not charged so far.` : "."),
    `All sessions: ${all.charged_usd} USD charged in ${all.calls} signed calls, ` +
      `${all.held_usd} USD held${all.budget_usd === undefined ? "" : `, of ${all.budget_usd} USD`}.`,
    openCount === 0 ? "No payment is open." : `${openCount} payments are open; each may have been charged, once:`,
    ...open.map(
      (one) =>
        `- payment_id ${one.payment_id}: ${one.service_id}, ${one.usd} USD, signed at ${one.signed_at}; ` +
        (one.known_here
          ? "resume_payment with this payment_id presents it again."
          : "resume_payment with the service_id and request as they were presents it again."),
    ),
  ];
  return lines.join("\n");
}
