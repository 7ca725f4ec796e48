import { AppError, isRecord } from "@turnpike/base";
import type { ChainClient } from "@turnpike/chain-client";
import { methodAt, toApiJsonText } from "@turnpike/proto";
import { printExact, printOut } from "../../cli/terminal.ts";
import { openChainClient } from "../../wiring/chain-client.ts";
import { refusalText } from "../tx/text.ts";
import { heightAdvice } from "./heights.ts";
import { QueryInput } from "./input.ts";
import { printAnswer, type QueryFlags } from "./print.ts";
import type { QueryRow, QueryTable } from "./row.ts";
import { withoutEmpty } from "./text.ts";

type UnaryMethod = Parameters<ChainClient["query"]>[0];

function heightOf({ height }: QueryFlags): { readonly heightBlocks?: bigint } {
  if (height === undefined) return {};
  if (/^\d{1,19}$/.test(height)) return { heightBlocks: BigInt(height) };
  throw new AppError("USAGE", { message: `--height: expected a height, such as 100, not ${JSON.stringify(height)}.` });
}

/** The card of a service or a gateway. */
function printCard(answer: object, flags: Readonly<Record<string, unknown>>): void {
  const [actor] = Object.values(answer).filter(isRecord);
  const metadata = isRecord(actor?.metadata) ? actor.metadata : undefined;
  const card = metadata?.card instanceof Uint8Array ? metadata.card : new Uint8Array(0);
  if (card.length === 0) throw new AppError("CHAIN_QUERY_FAILED", { message: "It has no card." });
  const text = Buffer.from(card).toString("utf8");
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    value = undefined;
  }
  if (flags.raw === true) printExact(card);
  else if (value === undefined) {
    throw new AppError("CHAIN_QUERY_FAILED", { message: "The card is no JSON; see its bytes with --raw." });
  } else printOut(`${JSON.stringify(value, undefined, flags.json === true ? 0 : 2)}\n`);
}

/** Runs a query of a table. @throws AppError USAGE, CHAIN_UNREACHABLE, CHAIN_QUERY_FAILED with the module's own text */
export async function runQuery(
  { shape }: Pick<QueryTable, "shape">,
  row: QueryRow,
  args: readonly string[],
  flags: QueryFlags & Readonly<Record<string, unknown>>,
): Promise<void> {
  const order = await row.ask(new QueryInput(args, flags, flags));
  const method = methodAt(order.path);
  if (method === undefined || method.methodKind !== "unary") {
    throw new AppError("INTERNAL", { message: `${order.path} is no query.` });
  }
  await using client = await openChainClient(flags);
  const answer = await client.query(method as UnaryMethod, order.fields as Record<string, unknown>, heightOf(flags));
  if (!answer.ok) {
    const { code, codespace, text } = answer;
    const message = refusalText({ code, codespace, log: text });
    const { heightBlocks } = heightOf(flags);
    const advice = heightBlocks === undefined ? undefined : await heightAdvice({ heightBlocks, text }, { client });
    throw new AppError("CHAIN_QUERY_FAILED", {
      message,
      detail: { code, codespace },
      ...(advice === undefined ? {} : { advice }),
    });
  }
  if (row.isCard === true) return printCard(answer.value, flags);
  const text = toApiJsonText(method.output, answer.value);
  printAnswer(text, flags, shape === "compact" ? undefined : () => withoutEmpty(method.output, JSON.parse(text)));
}
