import type { Variation } from "../lib/load.ts";

/** One kind of load, as bytes of a body. */
export interface Workload {
  readonly name: "single" | "block-number" | "batch" | "large" | "cached";
  readonly title: string;
  readonly body: string;
  /** Text of the body that is another number in every request; hexadecimal digits. Undefined: always the same bytes. */
  readonly varied: string | undefined;
  /** Most CPU a request, in that of the bare proxy. */
  readonly aim: number | undefined;
}

const DIGITS = 16;
const VARIED = "v".repeat(DIGITS);
const rpc = (id: number, method: string, params: string): string =>
  `{"jsonrpc":"2.0","id":${id},"method":"${method}","params":${params}}`;
const balanceOf = (id: number): string => rpc(id, "eth_getBalance", `["0x${"0".repeat(24)}${VARIED}","latest"]`);

/** Height of the stand-in back-end's newest block. */
export const HEAD_BLOCKS = 20_000_000;
/** Its newest block that cannot be undone. */
export const FINAL_BLOCKS = HEAD_BLOCKS - 64;

/** The loads that are measured. */
export const WORKLOADS: readonly Workload[] = [
  { name: "single", title: "eth_getBalance, each of another account", body: balanceOf(1), varied: VARIED, aim: 0.8 },
  {
    name: "block-number",
    title: "eth_blockNumber",
    body: rpc(1, "eth_blockNumber", "[]"),
    varied: undefined,
    aim: 0.4,
  },
  {
    name: "batch",
    title: "batch of ten eth_getBalance",
    body: `[${Array.from({ length: 10 }, (_, at) => balanceOf(at + 1)).join(",")}]`,
    varied: VARIED,
    aim: 1.5,
  },
  {
    name: "large",
    title: "a block of 30 KB, each of another hash",
    body: rpc(1, "eth_getBlockByHash", `["0x${"0".repeat(48)}${VARIED}",true]`),
    varied: VARIED,
    aim: 0.75,
  },
  {
    name: "cached",
    title: "the same final block again and again",
    body: rpc(1, "eth_getBlockByNumber", `["0x${(FINAL_BLOCKS - 1_000).toString(16)}",false]`),
    varied: undefined,
    aim: 0.4,
  },
];

/** A workload's request to a server, and what varies in it. */
export function requestOf(
  { body, varied }: Workload,
  server: { readonly host: string; readonly path: string },
): { readonly request: Uint8Array; readonly vary?: Variation } {
  const head = [
    `POST ${server.path} HTTP/1.1`,
    `host: ${server.host}`,
    "accept: application/json",
    "content-type: application/json",
    `content-length: ${Buffer.byteLength(body)}`,
  ];
  const text = `${head.join("\r\n")}\r\n\r\n${body}`;
  const request = Buffer.from(varied === undefined ? text : text.replaceAll(varied, "0".repeat(varied.length)));
  if (varied === undefined) return { request };
  const at: number[] = [];
  for (let from = text.indexOf(varied); from !== -1; from = text.indexOf(varied, from + 1)) at.push(from);
  return { request, vary: { at, digits: varied.length } };
}
