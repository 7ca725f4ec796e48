import { hash } from "node:crypto";
import { AppError } from "@turnpike/base";
import { createMessage, decodeMessage, encodeMessage, packAny, proof, session } from "@turnpike/proto";
import type { BenchOptions } from "../lib/benchmark.ts";
import type { Report, Row } from "../lib/report.ts";
import { median } from "../lib/stats.ts";
import {
  type BenchNode,
  beginChain,
  cpuOf,
  fullBlock,
  type Ground,
  makeGround,
  SERVICE_ID,
  scratchFolder,
  signed,
  submitAll,
  UNITS_PER_RELAY,
} from "./ground.ts";

/** Applications whose sessions are claimed for, and those whose sessions are only asked for. */
const CLAIMED = 10;
const ASKED = 40;
const [FEW, MANY] = [50, 5_000];
const GET_SESSION = "/pocket.session.Query/GetSession";
/** Of the profile `fast`: sessions of 20 blocks, claims from the second block after their end on. */
const CLAIM_HEIGHT = 22n;
const SECOND_SESSION = 21n;
const RELAYS = 1_000n;

/** A session as a query answers it. @throws AppError when there is none */
export function getSession(
  node: { readonly application: Pick<BenchNode["application"], "grpcQuery"> },
  applicationAddress: string,
  height: bigint,
  serviceId = SERVICE_ID,
): session.Session {
  const asked = createMessage(session.QueryGetSessionRequestSchema, {
    applicationAddress,
    serviceId,
    blockHeight: height,
  });
  const answer = node.application.grpcQuery(GET_SESSION, encodeMessage(session.QueryGetSessionRequestSchema, asked));
  const read = answer.ok ? decodeMessage(session.QueryGetSessionResponseSchema, answer.value) : undefined;
  if (read?.ok !== true || read.message.session === undefined) {
    throw new AppError("INTERNAL", { message: answer.ok ? "no session" : answer.text });
  }
  return read.message.session;
}

/** Claims of all suppliers of the sessions that ended. */
function claimsOf(node: BenchNode, ground: Ground): Uint8Array[] {
  const bySupplier = new Map(ground.suppliers.map((account) => [account.signer.address, account]));
  const sequences = new Map<string, bigint>();
  return ground.applications.slice(0, CLAIMED).flatMap(({ signer }) => {
    const { header, suppliers } = getSession(node, signer.address, 1n);
    return suppliers.map(({ operatorAddress }) => {
      const account = bySupplier.get(operatorAddress);
      if (account === undefined || header === undefined) throw new AppError("INTERNAL", { message: "no header" });
      const rootHash = Buffer.alloc(48, 1);
      rootHash.writeBigUInt64BE(UNITS_PER_RELAY * RELAYS, 32);
      rootHash.writeBigUInt64BE(RELAYS, 40);
      const message = createMessage(proof.MsgCreateClaimSchema, {
        supplierOperatorAddress: operatorAddress,
        sessionHeader: header,
        rootHash,
      });
      const sequence = sequences.get(operatorAddress) ?? 0n;
      sequences.set(operatorAddress, sequence + 1n);
      return signed(packAny(proof.MsgCreateClaimSchema, message), account, sequence);
    });
  });
}

interface Figures {
  /** CPU of an empty block, in ms. */
  readonly emptyMs: number;
  /** CPU of the first block with claims, in ms: every session is drawn in it. */
  readonly claimsMs: number;
  readonly claims: number;
  /** CPU of the block that settles them, in ms. */
  readonly settleMs: number;
  /** CPU of a session that is asked for, for the first time and later, in µs. */
  readonly drawMicros: number;
  readonly againMicros: number;
  /** CPU of the hashes that a draw cannot do without, in µs. */
  readonly hashMicros: number;
}

async function measure(suppliers: number, { quick }: BenchOptions): Promise<Figures> {
  const ground = makeGround({ accounts: 1, suppliers, applications: CLAIMED + ASKED });
  await using folder = await scratchFolder();
  await using node = await beginChain(ground, folder.path);
  const empty: number[] = [];
  while (node.application.latestHeightBlocks() < CLAIM_HEIGHT - 1n) {
    empty.push((await cpuOf(() => node.produceBlock())) / 1_000);
  }
  const asking = ground.applications.slice(CLAIMED, CLAIMED + (quick ? ASKED / 5 : ASKED));
  const addresses = asking.map(({ signer }) => signer.address);
  const seeds = ground.suppliers.map(({ signer }) =>
    Buffer.concat([Buffer.alloc(112, 7), Buffer.from(signer.address)]),
  );
  const hashes = async (): Promise<number> =>
    (await cpuOf(() => {
      for (const _ of addresses) for (const seed of seeds) hash("sha3-256", seed, "latin1");
    })) / addresses.length;
  const sessions = async (height: bigint): Promise<number> =>
    (await cpuOf(() => {
      for (const address of addresses) getSession(node, address, height);
    })) / addresses.length;
  await hashes();
  await sessions(1n);
  const hashMicros = await hashes();
  // Of the second session, which nobody asked for so far.
  const drawMicros = await sessions(SECOND_SESSION);
  const again: number[] = [];
  for (let round = 0; round < 5; round++) again.push(await sessions(SECOND_SESSION));
  const txs = claimsOf(node, ground);
  submitAll(node, txs);
  const claimsMs = (await cpuOf(() => fullBlock(node, txs.length))) / 1_000;
  let settleMs = 0;
  // Proofs were due, or not, some dozen blocks later; then all claims are settled at once.
  for (let i = 0; i < 16; i++) settleMs = Math.max(settleMs, (await cpuOf(() => node.produceBlock())) / 1_000);
  return {
    emptyMs: median(empty.slice(4)),
    claimsMs,
    claims: txs.length,
    settleMs,
    drawMicros,
    againMicros: median(again),
    hashMicros,
  };
}

/** Session draws and blocks of a chain with 5,000 suppliers of one service, and with 50. */
export async function suppliersReport(options: BenchOptions): Promise<Report> {
  // The first one warms up.
  await measure(FEW, options);
  const many = await measure(MANY, options);
  const few = await measure(FEW, options);
  const draw = (key: "drawMicros" | "againMicros", side: Figures, suppliers: number): Row => ({
    name: `chain.${key === "drawMicros" ? "draw" : "draw-again"}-${suppliers}`,
    title:
      key === "drawMicros"
        ? `new sessions, ${suppliers.toLocaleString("en-US")} suppliers, a second of one core`
        : "… asked for again",
    ours: { value: 1e6 / side[key], unit: "/s" },
    reference: { value: 1e6 / side.hashMicros, unit: "/s" },
    ratioOf: "ours / reference",
  });
  const block = (name: "emptyMs" | "claimsMs" | "settleMs", key: string, title: string): Row => ({
    name: `chain.${key}`,
    title,
    ours: { value: many[name], unit: "ms" },
    reference: { value: few[name], unit: "ms" },
    ratioOf: "ours / reference",
    aim: { op: "<=", value: 2 },
  });
  return {
    rows: [
      draw("drawMicros", many, MANY),
      draw("againMicros", many, MANY),
      draw("drawMicros", few, FEW),
      draw("againMicros", few, FEW),
      block("emptyMs", "block-empty", "empty block, 5,000 suppliers to 50, CPU"),
      block("claimsMs", "block-claims", `block of ${many.claims} claims of ${CLAIMED} sessions, the same`),
      block("settleMs", "block-settle", "block that settles them, the same"),
    ],
    notes: [
      "The reference of a session is the SHA3-256 of all its candidates; ours is the whole query, with the session's 15 suppliers as protobuf.",
      "The reference of the blocks is the same chain with 50 suppliers.",
    ],
  };
}
