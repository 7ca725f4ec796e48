import type { Service } from "@turnpike/catalogue";
import type { BackendCall } from "@turnpike/protocol";
import {
  chainFault,
  type ErrorJudgement,
  type Family,
  finalStep,
  judgeHttpStatus,
  memberAt,
  type Probe,
  type ProbeStep,
  type RpcError,
  readHeight,
  rpcProbeCall,
  supplierFault,
  tooMuch,
} from "./family.ts";
import { EVM_METHODS } from "./methods/evm-methods.ts";
import { traitsOf } from "./methods/rules.ts";
import { parseDeclaredCall } from "./paid-call.ts";

/** The EVM ran, or the call could never run: every right node says the same. Texts of geth, Erigon, Nethermind, Besu, anvil. */
const FIXED =
  /revert|invalid ?opcode|bad instruction|invalid jump|stack ?(?:under|over)flow|out of ?gas|gas required exceeds|insufficient (?:funds|balance)|nonce too (?:low|high)|intrinsic gas|max ?fee ?per ?gas|max ?priority ?fee|fee cap|tip cap|exceeds block gas limit|write protection|static state change|address collision|max (?:code|initcode) ?size|^EVM error|VM execution error|filter not found|invalid argument|missing value for required argument|cannot unmarshal|must be in order|not a precompile|nonce has max value|not traceable|already (?:known|imported|exists)|known transaction|underpriced|transaction type not supported|invalid (?:sender|signature|chain id)|only replay-protected|^rlp: |typed transaction too short/i;
/** A revert with its reason after it, at nodes that say it with a code of their own. */
const REVERTED = /^(?:VM Exception while processing transaction: )?(?:execution )?revert(?:ed)?\b/i;
/** Another supplier may be further on, or keep more. */
const STATE =
  /(?:header|transaction|tx|receipt) (?:0x\w+ )?not found|block (?:not found|\w+ not found)|unknown block|BlockOutOfRange|beyond current head|trie node|state .{0,40}(?:not|un)available|historical state|not available|pruned|archive/i;
/** What `eth_simulateV1` says of its own blocks and calls (ethereum/execution-apis); below them is "too many blocks". */
const SIMULATION = { lowest: -38_025, highest: -38_010 };
/** Codes that say one thing, with whatever text: the method is not there. Nodes repeat its name. */
const NO_METHOD_CODES = new Set([-32_601, -32_004]);
/** The same under another code. */
const NO_METHOD = /^unsupported method|^(?:the )?method \S+ (?:does not exist|(?:is )?not )/i;
/** A tracer is a program of the client's: what it throws, or why it is none, is its own text. */
const TRACER_FAILED = /^\w*Error: |in server-side tracer function '/;
/** The supplier limits us: HTTP's code, and that of proxies. Most say -32005, which also stands for what is too much. */
const LIMIT_CODES = new Set([429, -32_029]);
const LIMITED =
  /rate ?limit|too many requests|requests? (?:limit|count)|quota|credits|capacity|throttl|upgrade|plan\b|api key|unauthorized/i;
/** The supplier takes no request of this size. */
const TOO_MUCH = /limit|range|too (?:many|large|wide|big)|exceed|more than \d|response size|timed? ?out|timeout/i;

/** Reads whose size no client chooses, and none can make large. */
const SMALL =
  /^(?:eth_(?:chainId|blockNumber|gasPrice|maxPriorityFeePerGas|blobBaseFee|syncing|get(?:Balance|Code|StorageAt|TransactionCount)|get(?:Block|Header)By(?:Number|Hash)|getBlockTransactionCountBy\w+|get(?:Raw)?TransactionBy\w+|getTransactionReceipt|getUncle\w+)|net_\w+|web3_clientVersion)$/;
/** A transaction can be too large in many ways, so that texts about a write say little. */
const WRITES = /^eth_sendRawTransaction/;
/** Of a small call: the supplier takes no more calls. A block may be out of range or too large for every client. */
const NO_MORE = /limit|too many|exceeded|timed? ?out|timeout/i;
const RESPONSE_SIZE = /response size/i;

/** Who is to blame where a limit was met that may be of the call's size, or of the number of calls. */
function judgeLimit({ code, message }: RpcError, { method = "" }: BackendCall): ErrorJudgement {
  const isSmall = SMALL.test(method) && !RESPONSE_SIZE.test(message);
  const isOfCalls = code === -32_005 ? isSmall || WRITES.test(method) : isSmall && NO_MORE.test(message);
  return isOfCalls ? supplierFault("rate_limited") : tooMuch;
}

/**
 * Judges an EVM error by EIP-1474 codes and the texts that nodes use. Codes come first wherever nodes put the client's
 * own words into the text: a client must not choose what a supplier is blamed for.
 */
export function judgeEvmError(error: RpcError, call: BackendCall): ErrorJudgement {
  const { code, message } = error;
  // Before any text is looked at: a method that is not there is never an answer, so that it is never charged.
  if (NO_METHOD_CODES.has(code)) return supplierFault("unsupported");
  // Likewise: a contract chooses what its revert says ("Unauthorized", "rate limit exceeded").
  if (code === 3 || code === -32015 || REVERTED.test(message)) return "answer";
  if (code >= SIMULATION.lowest && code <= SIMULATION.highest) return "answer";
  if (code === -32000 && call.method?.startsWith("debug_") === true && TRACER_FAILED.test(message)) {
    return /timeout/i.test(message) ? tooMuch : "answer";
  }
  if (NO_METHOD.test(message)) return supplierFault("unsupported");
  if (code === -32602) {
    if (STATE.test(message)) return chainFault("state_unavailable");
    return TOO_MUCH.test(message) ? tooMuch : "answer";
  }
  if (LIMIT_CODES.has(code) || LIMITED.test(message)) return supplierFault("rate_limited");
  if (code === -32700 || code === -32600) return supplierFault("error");
  if (FIXED.test(message)) return "answer";
  if (STATE.test(message)) return chainFault("state_unavailable");
  if (code === -32005 || TOO_MUCH.test(message)) return judgeLimit(error, call);
  return supplierFault("error");
}

const HASH = /^0x[0-9a-f]{64}$/i;

/** For suppliers that do not give the newest block. */
const HEIGHT_STEP: ProbeStep = {
  call: rpcProbeCall("eth_blockNumber", []),
  read: (result) => {
    const heightBlocks = readHeight(result);
    return heightBlocks === undefined ? { ok: false, reason: "bad_answer" } : { ok: true, heightBlocks };
  },
};

const HEAD_STEP: ProbeStep = {
  call: rpcProbeCall("eth_getBlockByNumber", ["latest", false]),
  instead: HEIGHT_STEP,
  read: (result) => {
    const heightBlocks = readHeight(memberAt(result, "number"));
    const hash = memberAt(result, "hash");
    const parent = memberAt(result, "parentHash");
    if (heightBlocks === undefined || typeof hash !== "string" || !HASH.test(hash)) {
      return { ok: false, reason: "bad_answer" };
    }
    const parentHash = typeof parent === "string" && HASH.test(parent) ? parent.toLowerCase() : undefined;
    return { ok: true, heightBlocks, head: { heightBlocks, hash: hash.toLowerCase(), parentHash } };
  },
};

const FINAL_STEP = finalStep(rpcProbeCall("eth_getBlockByNumber", ["finalized", false]), (result) =>
  memberAt(result, "number"),
);

/** Asks for the chain's id before anything else, for the newest block, and for the newest that cannot be undone. */
export function evmProbe(service: Service): Probe {
  return {
    isRequired: service.evmChainId !== undefined,
    steps: [
      {
        call: rpcProbeCall("eth_chainId", []),
        read: (result) => {
          const chainId = readHeight(result);
          if (chainId === undefined) return { ok: false, reason: "bad_answer" };
          if (service.evmChainId !== undefined && chainId !== service.evmChainId) {
            return { ok: false, reason: "wrong_chain" };
          }
          return { ok: true };
        },
      },
      HEAD_STEP,
      FINAL_STEP,
    ],
  };
}

/** EVM networks: Ethereum JSON-RPC. */
export const evm: Family = {
  id: "evm",
  parse: parseDeclaredCall,
  judgeRpcError: judgeEvmError,
  judgeHttpError: judgeHttpStatus,
  errorsOverHttp500: false,
  isLegacyRpc: false,
  traits: (call) => traitsOf(EVM_METHODS, call.method ?? call.operation, call.params),
  probe: (service, rpcType) => (rpcType === "json_rpc" ? evmProbe(service) : undefined),
};
