import { appendFile } from "node:fs/promises";
import { connect, createServer, type Server, type Socket } from "node:net";
import { bytesToHex } from "@turnpike/base";
import { sha256 } from "@turnpike/crypto";
import { cometAbci, createMessage, decodeMessage, encodeMessage } from "@turnpike/proto";
import { encodeFrame, FrameReader } from "../../../../packages/chain-node/src/abci/frames.ts";
import { BYZANTINE_BLOCKS, type ByzantineAccount, type OfferedBlock } from "./byzantine-blocks.ts";
import { BYZANTINE_PORT, type ProposedBlock } from "./byzantine-file.ts";

const MAX_BYTES = 512 * 1024 * 1024;
const ACCEPT = 1;

export interface ByzantineOptions {
  /** Port of the application. */
  readonly abciPort: number;
  /** File that gets a line of JSON for every block that is proposed. */
  readonly log: string;
  readonly account: ByzantineAccount;
  /** Height before which all blocks are honest. */
  readonly fromHeight: bigint;
}

const timeOf = (time: { readonly seconds: bigint; readonly nanos: number } | undefined): bigint =>
  (time?.seconds ?? 0n) * 1_000_000_000n + BigInt(time?.nanos ?? 0);

/** Stands between CometBFT and an application: proposes hostile blocks, and accepts every proposal. */
export class ByzantineProxy {
  readonly #options: ByzantineOptions;
  #turn = 0;

  constructor(options: ByzantineOptions) {
    this.#options = options;
  }

  /** Listens on {@link BYZANTINE_PORT} for as long as the process runs. */
  listen(): Server {
    const server = createServer((comet) => this.#join(comet));
    server.listen(BYZANTINE_PORT, "127.0.0.1");
    return server;
  }

  #join(comet: Socket): void {
    const application = connect(this.#options.abciPort, "127.0.0.1");
    const end = (): void => {
      comet.destroy();
      application.destroy();
    };
    for (const socket of [comet, application]) {
      socket.on("error", end);
      socket.on("close", end);
    }
    let offered: OfferedBlock | undefined;
    const requests = new FrameReader({ maxBytes: MAX_BYTES });
    comet.on("data", (chunk: Buffer) => {
      requests.push(chunk);
      for (let frame = requests.next(); frame.kind === "frame"; frame = requests.next()) {
        const decoded = decodeMessage(cometAbci.RequestSchema, frame.body);
        const value = decoded.ok ? decoded.message.value : undefined;
        if (value?.case === "prepareProposal") {
          const { height, time, txs } = value.value;
          offered = { heightBlocks: height, timeNanos: timeOf(time), txs };
        }
      }
      application.write(chunk);
    });
    const answers = new FrameReader({ maxBytes: MAX_BYTES });
    application.on("data", (chunk: Buffer) => {
      answers.push(chunk);
      for (let frame = answers.next(); frame.kind === "frame"; frame = answers.next()) {
        comet.write(this.#changed(frame.body, offered));
      }
    });
  }

  #changed(body: Uint8Array, offered: OfferedBlock | undefined): Buffer {
    const decoded = decodeMessage(cometAbci.ResponseSchema, body);
    const value = decoded.ok ? decoded.message.value : undefined;
    if (value?.case === "processProposal") {
      const accepted = createMessage(cometAbci.ResponseProcessProposalSchema, { status: ACCEPT });
      return frameOf({ case: "processProposal", value: accepted });
    }
    const isEarly = offered === undefined || offered.heightBlocks < this.#options.fromHeight;
    if (value?.case !== "prepareProposal" || isEarly) return encodeFrame(body);
    const kinds = Object.entries(BYZANTINE_BLOCKS);
    const turn = this.#turn++;
    const [kind, make] = kinds[(turn >> 1) % kinds.length] ?? [];
    // Every other block is as its application has it, so that the chain has honest blocks of this validator, too.
    if (turn % 2 === 0 || kind === undefined || make === undefined) return encodeFrame(body);
    const txs = make(offered, this.#options.account);
    const bytes = txs.reduce((sum, tx) => sum + tx.length, 0);
    const first = txs[0] === undefined ? "" : bytesToHex(sha256(txs[0]));
    const line: ProposedBlock = { height: `${offered.heightBlocks}`, kind, txs: txs.length, bytes, first };
    void appendFile(this.#options.log, `${JSON.stringify(line)}\n`);
    return frameOf({ case: "prepareProposal", value: createMessage(cometAbci.ResponsePrepareProposalSchema, { txs }) });
  }
}

function frameOf(value: cometAbci.Response["value"]): Buffer {
  return encodeFrame(encodeMessage(cometAbci.ResponseSchema, createMessage(cometAbci.ResponseSchema, { value })));
}
