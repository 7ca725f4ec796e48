/** One line of a panel: an expression, and how it is named in the legend. */
export type Query = readonly [expr: string, legend: string];

/** One panel. `unit` is one of Grafana's. */
export interface Panel {
  readonly title: string;
  readonly unit: string;
  readonly queries: readonly Query[];
  /** A number instead of a graph. */
  readonly isStat?: true;
}

/** One dashboard: rows of panels. */
export interface Dashboard {
  readonly file: string;
  readonly title: string;
  readonly rows: readonly { readonly title: string; readonly panels: readonly Panel[] }[];
}

const RATE = "[$__rate_interval]";

const graph = (title: string, unit: string, ...queries: readonly Query[]): Panel => ({ title, unit, queries });
const stat = (title: string, unit: string, expr: string, legend = ""): Panel => ({
  title,
  unit,
  queries: [[expr, legend]],
  isStat: true,
});
const legendOf = (by: string): string =>
  by
    .split(", ")
    .map((label) => `{{${label}}}`)
    .join(" ");

/** Rate of a counter by labels (`a, b`); `where` is what stands between its braces. */
const rate = (title: string, metric: string, by: string, where = ""): Panel =>
  graph(title, "ops", [`sum by (${by}) (rate(${metric}${where && `{${where}}`}${RATE}))`, legendOf(by)]);
/** Sum of a gauge by labels. */
const level = (title: string, metric: string, by: string, unit = "short"): Panel =>
  graph(title, unit, [`sum by (${by}) (${metric})`, legendOf(by)]);
/** Growth of a rare counter. */
const events = (title: string, metric: string, by = "instance"): Panel =>
  graph(title, "short", [`sum by (${by}) (increase(${metric}${RATE}))`, legendOf(by)]);
/** p50, p95 and p99 of a histogram. */
const quantiles = (title: string, metric: string, unit = "s", where = ""): Panel => ({
  title,
  unit,
  queries: [0.5, 0.95, 0.99].map((q) => [
    `histogram_quantile(${q}, sum by (le) (rate(${metric}_bucket${where && `{${where}}`}${RATE})))`,
    `p${q * 100}`,
  ]),
});
/** p95 of a histogram by labels. */
const p95 = (title: string, metric: string, by: string, unit = "s"): Panel =>
  graph(title, unit, [`histogram_quantile(0.95, sum by (le, ${by}) (rate(${metric}_bucket${RATE})))`, legendOf(by)]);
/** Mean of a histogram by labels. */
const mean = (title: string, metric: string, by: string): Panel =>
  graph(title, "short", [
    `sum by (${by}) (rate(${metric}_sum${RATE})) / sum by (${by}) (rate(${metric}_count${RATE}))`,
    legendOf(by),
  ]);

const GATEWAY: Dashboard = {
  file: "gateway",
  title: "Turnpike: gateway",
  rows: [
    {
      title: "Now",
      panels: [
        stat("Gateways ready", "short", "sum(turnpike_gateway_ready)"),
        stat("Services that answer", "short", "count(max by (service) (turnpike_gateway_service_ready) == 1)"),
        level("In flight", "turnpike_gateway_in_flight", "door"),
      ],
    },
    {
      title: "Requests",
      panels: [
        rate("Answers by door and status", "turnpike_gateway_requests_total", "door, status"),
        rate("Paid calls by result", "turnpike_gateway_requests_total", "result", 'door="paid"'),
        rate("Free calls by result", "turnpike_gateway_requests_total", "result", 'door="free"'),
        quantiles("Time of paid calls", "turnpike_gateway_request_seconds", "s", 'door="paid"'),
        quantiles("Time of free calls", "turnpike_gateway_request_seconds", "s", 'door="free"'),
        rate("Sold calls by service", "turnpike_gateway_requests_total", "service", 'door="paid",result="ok"'),
        level("Services ready", "turnpike_gateway_service_ready", "service"),
        quantiles("Size of sold answers", "turnpike_gateway_sold_bytes", "bytes"),
      ],
    },
    {
      title: "Stages of a paid call",
      panels: [
        rate("Runs by stage and outcome", "turnpike_gateway_stage_total", "stage, outcome"),
        p95("p95 by stage", "turnpike_gateway_stage_seconds", "stage"),
        level("In flight by stage", "turnpike_gateway_stage_in_flight", "stage"),
      ],
    },
    {
      title: "Limits",
      panels: [
        rate("Refused by limit", "turnpike_gateway_limited_total", "limit"),
        level("Shared store in use", "turnpike_gateway_limit_store_up", "instance"),
        rate("Failures of the shared store", "turnpike_gateway_limit_store_failures_total", "cause"),
        rate("Connections closed by bounds", "turnpike_connections_refused_total", "server, reason"),
        events("Faults of connections", "turnpike_connection_faults_total", "server"),
      ],
    },
    {
      title: "WebSockets",
      panels: [
        level("Connections", "turnpike_gateway_websocket_connections", "service"),
        level("Subscriptions", "turnpike_gateway_websocket_subscriptions", "service"),
        rate("Messages by result", "turnpike_gateway_websocket_messages_total", "result"),
        rate("Events sent", "turnpike_gateway_websocket_events_total", "service"),
        rate("Ended by reason", "turnpike_gateway_websocket_closed_total", "reason"),
      ],
    },
    {
      title: "Operation",
      panels: [
        events("Reloads by outcome", "turnpike_config_reloads_total", "outcome"),
        level("Old configurations in use", "turnpike_gateway_config_old", "instance"),
        rate("Admin requests by status", "turnpike_gateway_admin_requests_total", "status"),
      ],
    },
    {
      title: "Several processes",
      panels: [
        level("Workers that serve", "turnpike_workers_up", "instance"),
        events("Workers started again", "turnpike_worker_restarts_total", "instance"),
        level("Shares through Redis", "turnpike_gateway_bus_up", "instance"),
        rate("Messages between processes", "turnpike_gateway_bus_messages_total", "outcome"),
      ],
    },
    {
      title: "Process",
      panels: [
        graph("Event-loop delay, p99", "s", ["max by (instance) (nodejs_eventloop_lag_p99_seconds)", "{{instance}}"]),
        graph("CPU", "percentunit", [`sum by (instance) (rate(process_cpu_seconds_total${RATE}))`, "{{instance}}"]),
        graph(
          "Memory",
          "bytes",
          ["sum by (instance) (process_resident_memory_bytes)", "{{instance}} resident"],
          ["sum by (instance) (nodejs_heap_size_used_bytes)", "{{instance}} heap"],
        ),
        graph("Time in garbage collection", "percentunit", [
          `sum by (instance) (rate(nodejs_gc_duration_seconds_sum${RATE}))`,
          "{{instance}}",
        ]),
        level("Open files", "process_open_fds", "instance"),
        level("Native code for signatures", "turnpike_secp256k1_native", "instance"),
      ],
    },
  ],
};

const PAYMENT: Dashboard = {
  file: "payment",
  title: "Turnpike: payments",
  rows: [
    {
      title: "Books",
      panels: [
        stat("Owed", "short", 'sum(max by (job, network, asset) (turnpike_ledger_payments{state="owed"}))'),
        stat("Disputed", "short", 'sum(max by (job, network, asset) (turnpike_ledger_payments{state="disputed"}))'),
        stat("Age of the books", "s", "time() - max(turnpike_ledger_books_timestamp_seconds)"),
        graph("Open payments by state", "short", [
          'max by (job, network, asset, state) (turnpike_ledger_payments{state=~"claimed|signed|submitted"})',
          "{{job}} {{network}} {{asset}} {{state}}",
        ]),
        graph("Ended payments by state", "short", [
          'max by (job, network, asset, state) (turnpike_ledger_payments{state!~"claimed|signed|submitted"})',
          "{{job}} {{network}} {{asset}} {{state}}",
        ]),
        graph("Value by state, in smallest units", "short", [
          "max by (job, network, asset, state) (turnpike_ledger_value_units)",
          "{{job}} {{network}} {{asset}} {{state}}",
        ]),
      ],
    },
    {
      title: "Presented payments",
      panels: [
        rate("Admissions by result", "turnpike_payment_admissions_total", "result"),
        rate("Claims by outcome", "turnpike_payment_outcomes_total", "outcome"),
        rate("Verifications by step and result", "turnpike_payment_verifications_total", "step, result"),
        p95("Verification, p95 by step", "turnpike_payment_verification_seconds", "step"),
        mean("Payments per exchange with the chain", "turnpike_payment_verification_batch_payments", "instance"),
        level("Signatures that wait", "turnpike_payment_recover_queue", "instance"),
        events("Lost signature threads", "turnpike_payment_recover_worker_exits_total"),
      ],
    },
    {
      title: "Settlement",
      panels: [
        rate("Settlements by outcome", "turnpike_settlements_total", "network, outcome"),
        quantiles("Time of a settlement", "turnpike_settlement_duration_seconds"),
        level("Payments that wait", "turnpike_settlement_queue", "network"),
        level("Open transactions", "turnpike_settlement_open_batches", "network"),
        graph("Payments that are late", "short", ["max by (network) (turnpike_settlement_unresolved)", "{{network}}"]),
        mean("Payments per transaction", "turnpike_settlement_batch_payments", "network"),
        rate("Transactions sent by kind", "turnpike_settlement_broadcasts_total", "network, kind"),
        graph("Cost of one payment now, in US dollars", "currencyUSD", [
          "max by (network, kind) (turnpike_settlement_cost_per_payment_usd)",
          "{{network}} {{kind}}",
        ]),
        graph("Gas of one payment", "short", [
          "max by (network, kind) (turnpike_settlement_gas_per_payment)",
          "{{network}} {{kind}}",
        ]),
        rate("Spent on settlements, in wei a second", "turnpike_settlement_cost_wei_total", "network"),
        rate("Unprofitable payments by what was done", "turnpike_settlement_unprofitable_total", "network, action"),
        level("Relayer keys held", "turnpike_settlement_leased_keys", "network"),
        graph(
          "Gas of relayer keys, in wei",
          "short",
          ["max by (network, relayer) (turnpike_settlement_relayer_balance_wei)", "{{network}} {{relayer}}"],
          ["max by (network) (turnpike_settlement_relayer_min_balance_wei)", "{{network}} least"],
        ),
        events("Payments in another seller's ledger", "turnpike_settlement_foreign_total", "network, node"),
        rate("Scans for payments of other sellers", "turnpike_settlement_foreign_scans_total", "network, node, result"),
        graph("Blocks not yet scanned for payments of other sellers", "short", [
          "max by (network, node) (turnpike_settlement_foreign_lag_blocks)",
          "{{network}} {{node}}",
        ]),
        rate("Answers of a remote facilitator", "turnpike_remote_facilitator_answers_total", "network, answer"),
        rate("Requests to this facilitator", "turnpike_facilitator_requests_total", "endpoint, result"),
      ],
    },
    {
      title: "Chain nodes",
      panels: [
        rate("Exchanges by host and outcome", "turnpike_settlement_rpc_seconds_count", "host, outcome"),
        p95("Exchange, p95 by host", "turnpike_settlement_rpc_seconds", "host"),
        rate("Calls by method", "turnpike_settlement_rpc_calls_total", "method"),
        rate("Repeated at another node", "turnpike_settlement_rpc_failovers_total", "host"),
        graph("Chain's time less the machine's", "s", [
          "max by (instance, network) (turnpike_chain_time_offset_seconds)",
          "{{instance}} {{network}}",
        ]),
      ],
    },
    {
      title: "Ledger",
      panels: [
        quantiles("Time of a call", "turnpike_ledger_query_seconds", "s", 'method!="books"'),
        p95("Call, p95 by method", "turnpike_ledger_query_seconds", "method"),
        rate("Failed calls", "turnpike_ledger_query_seconds_count", "method", 'outcome="failed"'),
        level("Connections", "turnpike_ledger_connections", "pool, state"),
        events("Claims of dead processes released", "turnpike_ledger_orphans_released_total"),
        events("Unused claims deleted", "turnpike_ledger_pruned_total"),
        events("Claims and leases lost", "turnpike_ledger_holder_lost_total"),
      ],
    },
  ],
};

const RELAY: Dashboard = {
  file: "relay",
  title: "Turnpike: relay",
  rows: [
    {
      title: "Relays",
      panels: [
        rate("Relays by result", "turnpike_relays_total", "result"),
        rate("Relays by service", "turnpike_relays_total", "service"),
        level("In flight", "turnpike_relay_in_flight", "instance"),
        level("Answers being received", "turnpike_relay_in_flight_bytes", "instance", "bytes"),
      ],
    },
    {
      title: "Suppliers",
      panels: [
        rate("Attempts by outcome", "turnpike_relay_attempts_total", "outcome"),
        rate("Bad attempts by blame", "turnpike_relay_attempts_total", "blame", 'outcome="bad"'),
        rate("Bad attempts by reason", "turnpike_relay_attempts_total", "service, reason", 'outcome="bad"'),
        quantiles("Time of an attempt", "turnpike_relay_attempt_duration_seconds"),
        p95("Attempt, p95 by service", "turnpike_relay_attempt_duration_seconds", "service"),
        level("Healthy suppliers", "turnpike_relay_supplier_healthy", "service, operator, rpc_type"),
        level("Open breakers", "turnpike_relay_breaker_open", "service, operator, rpc_type"),
        rate("Probes by result", "turnpike_relay_probes_total", "service, result"),
      ],
    },
    {
      title: "Ways to an answer",
      panels: [
        rate("Hedged calls by result", "turnpike_relay_hedges_total", "service, result"),
        rate("Compared answers by result", "turnpike_relay_cross_checks_total", "service, result"),
        rate("Questions for logs that were split", "turnpike_relay_split_logs_total", "service, result"),
      ],
    },
    {
      title: "Cache",
      panels: [
        rate("Answers from the cache", "turnpike_relay_cache_hits_total", "service, rule"),
        graph("Share of cacheable calls", "percentunit", [
          `sum by (service) (rate(turnpike_relay_cache_hits_total${RATE})) / (sum by (service) (rate(turnpike_relay_cache_hits_total${RATE})) + sum by (service) (rate(turnpike_relay_cache_misses_total${RATE})))`,
          "{{service}}",
        ]),
        level("Memory of kept answers", "turnpike_relay_cache_bytes", "instance", "bytes"),
        level("Kept answers", "turnpike_relay_cache_entries", "instance"),
        rate("Answers that left by reason", "turnpike_relay_cache_removals_total", "reason"),
      ],
    },
    {
      title: "Sessions of the chain",
      panels: [
        level("Sessions in use", "turnpike_relay_sessions", "service"),
        level("Registered services without room", "turnpike_relay_services_left_out", "instance"),
        rate("Sessions asked of the chain", "turnpike_relay_session_loads_total", "service, result"),
        quantiles("Blocks of a session before it was in use", "turnpike_relay_session_age_blocks", "short"),
        rate("Signed relays by purpose and result", "turnpike_relay_signed_total", "service, purpose, result"),
      ],
    },
    {
      title: "Subscriptions",
      panels: [
        level("WebSockets to suppliers", "turnpike_relay_upstream_websockets", "service"),
        level("Subscriptions at suppliers", "turnpike_relay_upstream_subscriptions", "service"),
        rate("Lost by reason", "turnpike_relay_upstream_websocket_losses_total", "service, reason"),
        rate("Events fetched to fill a gap", "turnpike_relay_replayed_events_total", "service, kind"),
        rate("Events held back as repeated", "turnpike_relay_repeated_events_total", "service, kind"),
      ],
    },
  ],
};

const PORTAL: Dashboard = {
  file: "portal",
  title: "Turnpike: management data",
  rows: [
    {
      title: "Requests",
      panels: [
        rate("Answers by verb and status", "turnpike_portal_requests_total", "verb, status"),
        rate("Requests by table", "turnpike_portal_requests_total", "table"),
        quantiles("Time of a request", "turnpike_portal_request_seconds"),
        p95("Request, p95 by verb", "turnpike_portal_request_seconds", "verb"),
        level("In flight", "turnpike_portal_in_flight", "instance"),
      ],
    },
    {
      title: "Refused",
      panels: [
        rate("Refused tokens by code", "turnpike_portal_refused_tokens_total", "code"),
        rate("Over a limit", "turnpike_portal_limited_total", "limit"),
      ],
    },
    {
      title: "Keys on the relay",
      panels: [
        rate("Keyed requests by outcome", "turnpike_gateway_keyed_total", "outcome"),
        rate("Keys looked up", "turnpike_portal_key_lookups_total", "outcome"),
        rate("Writes of usage", "turnpike_portal_usage_writes_total", "outcome"),
        level("Usage that waits to be written", "turnpike_portal_usage_pending", "instance"),
        events("Calls that could not be counted", "turnpike_portal_usage_lost_total"),
      ],
    },
  ],
};

const SEARCH: Dashboard = {
  file: "search",
  title: "Turnpike: search",
  rows: [
    {
      title: "Searches",
      panels: [
        rate("Searches by outcome", "turnpike_search_requests_total", "outcome"),
        quantiles("Time of a search", "turnpike_search_seconds"),
        level("In flight", "turnpike_search_in_flight", "instance"),
      ],
    },
    {
      title: "Engines",
      panels: [
        rate("Answers by engine", "turnpike_search_engine_calls_total", "engine", 'outcome="ok"'),
        rate("Failures by engine and reason", "turnpike_search_engine_calls_total", "engine, outcome", 'outcome!="ok"'),
        p95("Answer, p95 by engine", "turnpike_search_engine_seconds", "engine"),
      ],
    },
    {
      title: "Cache and index",
      panels: [
        rate("Searches without asking the engines", "turnpike_search_cache_hits_total", "kind"),
        level("Memory of kept answers", "turnpike_search_cache_bytes", "instance", "bytes"),
        level("Documents of the local index", "turnpike_search_index_documents", "instance"),
        level("Local index on disk", "turnpike_search_index_bytes", "instance", "bytes"),
      ],
    },
  ],
};

const CHAIN: Dashboard = {
  file: "chain",
  title: "Turnpike: chain",
  rows: [
    {
      title: "Now",
      panels: [
        stat("Height", "short", "max(turnpike_chain_height)"),
        stat("Age of the newest block", "s", "time() - max(turnpike_chain_block_timestamp_seconds)"),
        stat("Nodes that see the chain stand still", "short", "sum(turnpike_chain_halted)"),
      ],
    },
    {
      title: "Blocks",
      panels: [
        level("Height by node", "turnpike_chain_height", "instance"),
        quantiles("Time between blocks", "turnpike_chain_block_interval_seconds"),
        p95("A node's work on a block, p95 by stage", "turnpike_chain_block_stage_seconds", "stage"),
        graph("Share of the time that blocks take", "percentunit", [
          `sum by (instance) (rate(turnpike_chain_block_stage_seconds_sum${RATE})) / sum by (instance) (rate(turnpike_chain_block_interval_seconds_sum${RATE}))`,
          "{{instance}}",
        ]),
        rate("Transactions in blocks by result", "turnpike_chain_txs_total", "instance, result"),
        rate("Parts of blocks that failed", "turnpike_chain_block_parts_failed_total", "instance, part"),
      ],
    },
    {
      title: "Mempool",
      panels: [
        level("Transactions that wait", "turnpike_chain_mempool_txs", "instance"),
        level("Bytes that wait", "turnpike_chain_mempool_bytes", "instance", "bytes"),
        rate("Checks by kind and result", "turnpike_chain_checks_total", "kind, result"),
        rate("Refused by reason", "turnpike_chain_mempool_refused_total", "instance, reason"),
        rate("Left without a block, by reason", "turnpike_chain_mempool_dropped_total", "instance, reason"),
        level("Queries and simulations that wait", "turnpike_chain_queries_waiting", "instance, threads"),
        rate("Query threads lost", "turnpike_chain_query_threads_lost_total", "instance, threads"),
      ],
    },
    {
      title: "Network",
      panels: [
        level("Peers", "turnpike_chain_peers", "instance"),
        level("Nodes that catch up", "turnpike_chain_catching_up", "instance"),
        level("Engine answers", "turnpike_chain_engine_up", "instance"),
        graph("Validators", "short", ["max(turnpike_chain_validators)", "validators"]),
      ],
    },
    {
      title: "Store",
      panels: [
        level("State on disk", "turnpike_chain_store_bytes", "instance", "bytes"),
        level("Room on its disk", "turnpike_chain_disk_free_bytes", "instance", "bytes"),
        level("Oldest height that can be read", "turnpike_chain_earliest_height", "instance"),
        level("Rules, and the block that began them", "turnpike_chain_rules_height", "instance, rules"),
        level("Height of the planned upgrade", "turnpike_chain_upgrade_height", "instance"),
        level("The planned upgrade is not in this program", "turnpike_chain_upgrade_unknown", "instance"),
        level("Newest snapshot", "turnpike_chain_snapshot_height", "instance"),
        events("Snapshots by outcome", "turnpike_chain_snapshots_total", "instance, outcome"),
      ],
    },
  ],
};

const SUPPLIER: Dashboard = {
  file: "supplier",
  title: "Turnpike: supplier",
  rows: [
    {
      title: "Relays",
      panels: [
        rate("Served relays", "turnpike_supplier_relay_duration_seconds_count", "service"),
        rate("Refused relays by reason", "turnpike_supplier_relays_refused_total", "service, reason"),
        p95("Relay, p95 by service", "turnpike_supplier_relay_duration_seconds", "service"),
        level("Relays in flight", "turnpike_supplier_relays_in_flight", "instance"),
        level("WebSockets of gateways", "turnpike_supplier_websockets_open", "instance"),
        level("Back-ends that are asked", "turnpike_supplier_backend_up", "service, rpc_type"),
        rate("Connections closed by bounds", "turnpike_connections_refused_total", "server, reason"),
        events("Faults of connections", "turnpike_connection_faults_total", "server"),
      ],
    },
    {
      title: "Money",
      panels: [
        graph(
          "upokt a second: worth, charged, received",
          "short",
          [`sum(rate(turnpike_supplier_expected_upokt_total${RATE}))`, "worth"],
          [`sum(rate(turnpike_supplier_settled_upokt_total${RATE}))`, "charged"],
          [`sum(rate(turnpike_supplier_rewards_upokt_total${RATE}))`, "received"],
        ),
        events("Ended sessions by outcome", "turnpike_supplier_sessions_total", "service, outcome"),
        events("Penalties (upokt)", "turnpike_supplier_penalties_upokt_total", "service"),
      ],
    },
    {
      title: "Claims and proofs",
      panels: [
        level("Sessions that are not settled", "turnpike_supplier_unsettled_sessions", "operator, phase"),
        graph("Blocks since a settlement was due", "short", [
          "turnpike_supplier_settlement_delay_blocks",
          "{{operator}}",
        ]),
        events("Transactions by kind and outcome", "turnpike_supplier_txs_total", "kind, outcome"),
        graph("Coins for fees (upokt)", "short", ["turnpike_supplier_balance_upokt", "{{operator}}"]),
        graph("Height that was looked after", "short", ["turnpike_supplier_claims_height_blocks", "{{operator}}"]),
      ],
    },
    {
      title: "Evidence",
      panels: [rate("Relays by what became of them", "turnpike_supplier_evidence_relays_total", "service, outcome")],
    },
  ],
};

/** All dashboards. */
export const DASHBOARDS: readonly Dashboard[] = [GATEWAY, PAYMENT, RELAY, PORTAL, SEARCH, CHAIN, SUPPLIER];
