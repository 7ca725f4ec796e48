import { AppError, isRecord } from "@turnpike/base";
import type { ServiceView, SupplierView } from "@turnpike/relay";
import { type CommandContext, outputOf } from "../../cli/context.ts";
import { type AdminFlags, adminAddress, askAdmin } from "./admin-client.ts";

const HEADS = ["service", "operator", "speaks", "host", "score", "breaker", "latency", "height", "state"];

function stateOf(supplier: SupplierView): string {
  const notes = [
    supplier.isDrained ? "drained" : "",
    supplier.isWrongChain ? "wrong chain" : "",
    supplier.isHealthy ? "" : "not healthy",
  ];
  return notes.filter((note) => note !== "").join(", ") || "ok";
}

function rowsOf({ id, tipBlocks, suppliers }: ServiceView): string[][] {
  return suppliers.map((one) => [
    id,
    one.operator,
    one.rpcType,
    one.host,
    String(Math.round(one.score)),
    one.breaker,
    `${Math.round(one.latencyMs)} ms`,
    one.heightBlocks === undefined
      ? "-"
      : `${one.heightBlocks}${tipBlocks === undefined ? "" : ` (${one.heightBlocks - tipBlocks})`}`,
    stateOf(one),
  ]);
}

/** Text in columns. */
function table(rows: readonly (readonly string[])[]): string {
  const widths = HEADS.map((_, at) => Math.max(...rows.map((row) => row[at]?.length ?? 0)));
  return rows
    .map((row) =>
      row
        .map((cell, at) => cell.padEnd(widths[at] ?? 0))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}

function pathOf(...parts: readonly string[]): string {
  return `/${parts.map((part) => encodeURIComponent(part)).join("/")}`;
}

/** Shows the suppliers of one service, or of all. */
export async function suppliers(
  service: string | undefined,
  flags: AdminFlags,
  context: CommandContext,
): Promise<void> {
  const output = outputOf(flags);
  const address = adminAddress(flags, context);
  const value = await askAdmin(address, "GET", service === undefined ? "/services" : pathOf("services", service));
  output.result(value);
  const views = isRecord(value) && Array.isArray(value.services) ? value.services : [value];
  const rows = (views as ServiceView[]).flatMap(rowsOf);
  output.line(rows.length === 0 ? "No service has suppliers." : table([HEADS, ...rows]));
}

const DONE = {
  drain: "is drained: it gets no new calls",
  undrain: "is back in service",
  "reset-score": "starts again with a new score and a closed breaker",
};

/** Drains, puts back or resets the scores of an operator's suppliers of a service. */
export async function change(
  step: keyof typeof DONE,
  service: string,
  operator: string,
  flags: AdminFlags,
  context: CommandContext,
): Promise<void> {
  const output = outputOf(flags);
  const path = pathOf("services", service, "suppliers", operator, step);
  output.result(await askAdmin(adminAddress(flags, context), "POST", path));
  output.line(`${operator} of ${service} ${DONE[step]}.`);
}

/** Shows the relay's flags, or switches one on or off. */
export async function flags(
  flag: string | undefined,
  state: string | undefined,
  opts: AdminFlags,
  context: CommandContext,
): Promise<void> {
  if (flag !== undefined && state !== "on" && state !== "off") {
    throw new AppError("USAGE", { message: `Say what ${flag} is to be: on or off.` });
  }
  const output = outputOf(opts);
  const address = adminAddress(opts, context);
  const value =
    flag === undefined
      ? await askAdmin(address, "GET", "/flags")
      : await askAdmin(address, "PUT", pathOf("flags", flag), { on: state === "on" });
  output.result(value);
  const known = isRecord(value) && isRecord(value.flags) ? value.flags : {};
  output.line(
    Object.entries(known)
      .map(([name, isOn]) => `${name.padEnd(18)} ${isOn === true ? "on" : "off"}`)
      .join("\n"),
  );
}

/** Purges cached responses. */
export async function purgeCache(
  service: string | undefined,
  flags: AdminFlags,
  context: CommandContext,
): Promise<void> {
  const output = outputOf(flags);
  const query = service === undefined ? "" : `?service=${encodeURIComponent(service)}`;
  output.result(await askAdmin(adminAddress(flags, context), "POST", `/cache/clear${query}`));
  output.line(`The cached responses of ${service ?? "all services"} are purged.`);
}

/** Has the gateway read its configuration again. */
export async function reload(flags: AdminFlags, context: CommandContext): Promise<void> {
  const output = outputOf(flags);
  const value = await askAdmin(adminAddress(flags, context), "POST", "/reload");
  output.result(value);
  const changed = isRecord(value) && Array.isArray(value.changed) ? value.changed.map(String) : [];
  output.line(changed.length === 0 ? "Nothing has changed." : `In effect: ${changed.join(", ")}`);
}
