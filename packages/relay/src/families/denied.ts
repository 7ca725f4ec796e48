import type { FamilyId, Service } from "@turnpike/catalogue";

/**
 * What the free relay does not forward. A `*` at the end stands for any rest, elsewhere for any text without `_` and `/`;
 * letter case and white space count for nothing.
 */
export interface DeniedMethods {
  readonly names: readonly string[];
  readonly why: string;
  /** Names that fit but are forwarded. */
  readonly but?: readonly string[];
}

const EVM: readonly DeniedMethods[] = [
  {
    // Namespaces by what operators call such things, so that a new one of another node's software is refused too.
    names: [
      "*admin*_*",
      "*config*_*",
      "*engine*_*",
      "*internal*_*",
      "*keystore*_*",
      "*maintenance*_*",
      "*manage*_*",
      "*miner*_*",
      "*mining*_*",
      "*operator*_*",
      "*p2p*_*",
      "*peer*_*",
      "*permission*_*",
      "*sequencer*_*",
      "*snapshot*_*",
      "*validat*_*",
      "account_*",
      "auctioneer_*",
      "catalyst_*",
      "chequebook_*",
      "clique_*",
      "conductor_*",
      "das_*",
      "db_*",
      "dev_*",
      "faucet_*",
      "filteringreport_*",
      "flashbots_*",
      "ibft_*",
      "istanbul_*",
      "les_*",
      "lespay_*",
      "light_*",
      "mainbridge_*",
      "nitro*_*",
      "perm_*",
      "plugins_*",
      "qbft_*",
      "raft_*",
      "shh_*",
      "subbridge_*",
      "swarmfs_*",
      "testing_*",
      "transactionfilterer_*",
      "vault_*",
      "*_forkchoiceUpdated*",
      "*_getWork",
      "*_newPayload*",
      "*_submitHashrate",
      "*_submitWork",
      "erigon_cacheCheck",
      "eth_compile*",
      "erigon_nodeInfo",
      "governance_vote",
      "reth_jit",
    ],
    why: "controls the node, its peers or its mining",
  },
  {
    names: ["*debug*_*"],
    but: [
      "debug_accountAt",
      "debug_accountInfoAt",
      "debug_accountRange",
      "debug_codeByHash",
      "debug_executionWitness",
      "debug_executionWitnessByBlockHash",
      "debug_getAccessibleState",
      "debug_getBadBlocks",
      "debug_getBlockRlp",
      "debug_getBlockRlpByHash",
      "debug_getHeaderRlp",
      "debug_getModifiedAccountsByHash",
      "debug_getModifiedAccountsByNumber",
      "debug_getRawBlock",
      "debug_getRawBlockAccessList",
      "debug_getRawHeader",
      "debug_getRawReceipts",
      "debug_getRawTransaction",
      "debug_getRawTransactions",
      "debug_intermediateRoots",
      "debug_preimage",
      "debug_printBlock",
      "debug_seedHash",
      "debug_storageRangeAt",
      "debug_traceBadBlock",
      "debug_traceBlock",
      "debug_traceBlockByHash",
      "debug_traceBlockByNumber",
      "debug_traceCall",
      "debug_traceCallMany",
      "debug_traceChain",
      "debug_traceTransaction",
      "debug_traceTransactionByBlockAndIndex",
      "debug_traceTransactionByBlockhashAndIndex",
      "debug_traceTransactionInBlockByHash",
      "debug_traceTransactionInBlockByIndex",
    ],
    why: "sets the node back, shows its insides, or writes to its disk",
  },
  {
    names: ["txpool_*"],
    but: [
      "txpool_besuPendingTransactions",
      "txpool_besuStatistics",
      "txpool_besuTransactions",
      "txpool_content",
      "txpool_contentFrom",
      "txpool_inspect",
      "txpool_status",
    ],
    why: "changes the node's pool of transactions",
  },
  {
    names: ["parity_*"],
    but: [
      "parity_getBlockReceipts",
      "parity_pendingTransactions",
      "parity_nextNonce",
      "parity_listStorageKeys",
      "parity_allTransactions",
      "parity_chain",
      "parity_chainStatus",
      "parity_mode",
      "parity_getBlockHeaderByNumber",
      "parity_verifySignature",
      "parity_versionInfo",
    ],
    why: "controls the node or its accounts",
  },
  {
    // trace_import of some nodes writes traces into their store.
    names: ["trace_*", "arbtrace_*"],
    but: [
      "*trace_block",
      "trace_blockOpcodeGas",
      "*trace_call",
      "*trace_callMany",
      "*trace_filter",
      "*trace_get",
      "*trace_replayBlockTransactions",
      "*trace_replayTransaction",
      "*trace_transaction",
      "trace_transactionOpcodeGas",
      "trace_rawTransaction",
      "trace_simulateV1",
    ],
    why: "is no read of traces",
  },
  {
    names: ["net_enode", "net_localAddress", "net_services"],
    why: "says where the node is",
  },
  {
    names: ["anvil_*", "evm_*", "hardhat_*", "tenderly_*", "ganache_*"],
    why: "changes a development chain at will",
  },
  {
    names: [
      "eea_*",
      "personal_*",
      "priv_*",
      "privx_*",
      "wallet_*",
      "*_resend",
      "*_sendTransaction*",
      "*_sendUnsignedTransaction",
      "*_sign*",
    ],
    why: "signs with the node's own keys; send what you have signed with `eth_sendRawTransaction`",
  },
];

const COSMOS: readonly DeniedMethods[] = [
  {
    names: ["unsafe_*", "dial_peers", "dial_seeds", "/unsafe_*", "/dial_peers", "/dial_seeds"],
    why: "controls the node and its peers",
  },
];

const TRON_PATHS: readonly DeniedMethods[] = [
  {
    names: [
      "/wallet/addtransactionsign",
      "/wallet/createaddress",
      "/wallet/easytransfer*",
      "/wallet/generateaddress",
      "/wallet/gettransactionsign*",
      "/wallet*/*shielded*",
      "/wallet*/*spend*",
      "/wallet*/getakfromask",
      "/wallet*/getdiversifier",
      "/wallet*/getincomingviewingkey",
      "/wallet*/getnkfromnsk",
      "/wallet*/getrcm",
      "/wallet*/getzenpaymentaddress",
      "/wallet*/scan*",
      "/isshielded*",
      "/isspend",
      "/scan*",
    ],
    why: "takes or makes a private or viewing key",
  },
  { names: ["/monitor/*", "/net/*"], why: "controls the node" },
];

const BITCOIN: readonly DeniedMethods[] = [
  {
    names: ["*"],
    but: [
      "analyzepsbt",
      "combinepsbt",
      "combinerawtransaction",
      "converttopsbt",
      "createmultisig",
      "createpsbt",
      "createrawtransaction",
      "decodepsbt",
      "decoderawtransaction",
      "decodescript",
      "deriveaddresses",
      "estimatefee",
      "estimatepriority",
      "estimaterawfee",
      "estimatesmartfee",
      "estimatesmartpriority",
      "finalizepsbt",
      "getbestblockhash",
      "getbestchainlock",
      "getblock",
      "getblockchaininfo",
      "getblockcount",
      "getblockfilter",
      "getblockhash",
      "getblockheader",
      "getblockheaders",
      "getblockstats",
      "getchainstates",
      "getchaintips",
      "getchaintxstats",
      "getconnectioncount",
      "getdeploymentinfo",
      "getdescriptorinfo",
      "getdifficulty",
      "getdsproof",
      "getdsprooflist",
      "getdsproofscore",
      "getfinalizedblockhash",
      "getindexinfo",
      "getmempoolancestors",
      "getmempoolcluster",
      "getmempooldescendants",
      "getmempoolentry",
      "getmempoolinfo",
      "getmininginfo",
      "getnettotals",
      "getnetworkhashps",
      "getnetworkinfo",
      "getrawmempool",
      "getrawtransaction",
      "gettxout",
      "gettxoutproof",
      "gettxspendingprevout",
      "help",
      "joinpsbts",
      "sendrawtransaction",
      "submitpackage",
      "testmempoolaccept",
      "uptime",
      "utxoupdatepsbt",
      "validateaddress",
      "verifymessage",
      "verifytxoutproof",
    ],
    why: "controls the node, its peers or its chain, uses its wallet, or takes its time",
  },
];

/** The methods and paths of each family that the free relay refuses. Paths begin with a slash. */
export const DENIED: Readonly<Record<FamilyId, readonly DeniedMethods[]>> = {
  evm: EVM,
  cosmos: COSMOS,
  solana: [{ names: ["deregisterNode", "registerNode", "setLogFilter", "validatorExit"], why: "controls the node" }],
  near: [{ names: ["adv_*", "sandbox_*"], why: "changes the node's state at will" }],
  sui: [],
  radix: [{ names: ["/prometheus/*", "/system/*"], why: "controls the node" }],
  tron: [...EVM, ...TRON_PATHS],
  bitcoin: BITCOIN,
  beacon: [
    { names: ["/*"], but: ["/eth/*"], why: "is the software's own" },
    {
      names: ["/eth/*/admin/*", "/eth/v1alpha1/*", "/eth/*/keystores*", "/eth/*/remotekeys*"],
      why: "controls the node and its keys",
    },
    {
      names: ["/eth/*/validator/*"],
      but: [
        "/eth/*/validator/aggregate_attestation",
        "/eth/*/validator/attestation_data",
        "/eth/*/validator/duties/*",
        "/eth/*/validator/liveness/*",
        "/eth/*/validator/sync_committee_contribution",
      ],
      why: "is for the node's own validators",
    },
    { names: ["/eth/*/events"], why: "has no end" },
  ],
  search: [],
  http: [],
};

/** What is refused by one entry of {@link DENIED}, and what is not. */
interface Rule {
  readonly names: RegExp;
  readonly but: RegExp;
}

interface Rules {
  readonly rules: readonly Rule[];
  /** Verdicts by name as it was sent. */
  readonly verdicts: Map<string, boolean>;
}

/** What a lenient reader may drop or fold: white space, control and format characters, letter case, wide forms. */
const IGNORED = /[\s\p{C}\p{Z}]/gu;
/** Parameters of a path's segments, which some servers leave out of account. */
const PATH_PARAMETERS = /;[^/]*/g;
const PLAIN = /^[A-Za-z0-9_/]*$/;

function normalise(name: string): string {
  if (PLAIN.test(name)) return name.toLowerCase();
  const text = name.normalize("NFKC").replace(IGNORED, "").toLowerCase();
  return text.startsWith("/") ? text.replace(PATH_PARAMETERS, "") : text;
}

/** One expression for all names. Without names it fits nothing. */
function patternOf(names: readonly string[]): RegExp {
  const parts = names.map((name) => {
    const isOpen = name.endsWith("*");
    const text = (isOpen ? name.slice(0, -1) : name).toLowerCase();
    return `${text
      .split("*")
      .map((part) => RegExp.escape(part))
      .join("[^_/]*")}${isOpen ? ".*" : ""}`;
  });
  return parts.length === 0 ? /(?!)/ : new RegExp(`^(?:${parts.join("|")})$`, "su");
}

function rulesOf(families: readonly FamilyId[]): Rules {
  const groups = families.flatMap((family) => DENIED[family]);
  const rules = groups.map(({ names, but = [] }) => ({ names: patternOf(names), but: patternOf(but) }));
  return { rules, verdicts: new Map() };
}

const known = new WeakMap<Service, Rules>();

/**
 * True for a method, or a path with its slash, that the free relay does not forward to any of the service's families. What
 * the catalogue declares is forwarded whatever this says.
 */
export function isDenied(service: Service, name: string): boolean {
  let denied = known.get(service);
  if (denied === undefined) {
    denied = rulesOf(service.families);
    known.set(service, denied);
  }
  const { rules, verdicts } = denied;
  const verdict = verdicts.get(name);
  if (verdict !== undefined) return verdict;
  const text = normalise(name);
  const isTooLong = text.length > MAX_METHOD_CHARS && !text.startsWith("/");
  const isIn = isTooLong || rules.some(({ names, but }) => names.test(text) && !but.test(text));
  if (verdicts.size < MAX_VERDICTS && name.length <= MAX_VERDICT_CHARS) verdicts.set(name, isIn);
  return isIn;
}

/** No node has a method of a longer name, and the time of a match grows with its square. Paths are bounded by their parser. */
const MAX_METHOD_CHARS = 256;
/** Names whose verdict is kept: callers use few, and may send any. */
const MAX_VERDICTS = 512;
const MAX_VERDICT_CHARS = 64;
