import type { auth, authz, bank, staking, upgrade } from "@turnpike/proto";
import { type QueryTable, query } from "./row.ts";

const ADDRESS = { name: "<address>", says: "an address, or the name of a key" };
const VALIDATOR = { name: "<validator-address>", says: "poktvaloper1…" };
const VALIDATOR_EXAMPLE = "poktvaloper1lvrxptamh6ws83x64x4m3stx0p5m94d7gq6yul";

/** Queries of the modules that every chain of the Cosmos SDK has. */
export const COSMOS_QUERY_TABLES: readonly QueryTable[] = [
  {
    module: "auth",
    says: "accounts",
    shape: "compact",
    rows: [
      {
        name: "account",
        says: "Shows an account: its number, sequence and public key.",
        args: [ADDRESS],
        example: "application-1",
        ask: async (input) =>
          query<typeof auth.Query.method.account>("/cosmos.auth.v1beta1.Query/Account", {
            address: await input.address(input.args[0]),
          }),
      },
      {
        name: "accounts",
        says: "Lists all accounts, and their numbers.",
        pages: "page",
        example: "--page-limit 10",
        ask: (input) => query<typeof auth.Query.method.accounts>("/cosmos.auth.v1beta1.Query/Accounts", input.page()),
      },
      {
        name: "module-accounts",
        says: "Lists the accounts of modules.",
        example: "",
        ask: () => query<typeof auth.Query.method.moduleAccounts>("/cosmos.auth.v1beta1.Query/ModuleAccounts", {}),
      },
      {
        name: "params",
        says: "Shows the module's parameters.",
        example: "",
        ask: () => query<typeof auth.Query.method.params>("/cosmos.auth.v1beta1.Query/Params", {}),
      },
    ],
  },
  {
    module: "bank",
    says: "balances and supply",
    shape: "compact",
    rows: [
      {
        name: "balances",
        says: "Shows what an account has.",
        args: [ADDRESS],
        pages: "page",
        example: "application-1",
        ask: async (input) =>
          query<typeof bank.Query.method.allBalances>("/cosmos.bank.v1beta1.Query/AllBalances", {
            ...input.page(),
            address: await input.address(input.args[0]),
          }),
      },
      {
        name: "balance",
        says: "Shows what an account has of a denomination.",
        args: [ADDRESS, { name: "[denom]", says: "the denomination; upokt without" }],
        example: "application-1 upokt",
        ask: async (input) =>
          query<typeof bank.Query.method.balance>("/cosmos.bank.v1beta1.Query/Balance", {
            address: await input.address(input.args[0]),
            denom: input.args[1] ?? "upokt",
          }),
      },
      {
        name: "total-supply",
        aliases: ["total"],
        says: "Shows all coins that there are.",
        pages: "page",
        example: "",
        ask: (input) =>
          query<typeof bank.Query.method.totalSupply>("/cosmos.bank.v1beta1.Query/TotalSupply", input.page()),
      },
      {
        name: "params",
        says: "Shows the module's parameters.",
        example: "",
        ask: () => query<typeof bank.Query.method.params>("/cosmos.bank.v1beta1.Query/Params", {}),
      },
    ],
  },
  {
    module: "authz",
    says: "grants",
    shape: "compact",
    rows: [
      {
        name: "grants",
        says: "Shows what one account granted to another.",
        args: [
          { name: "<granter>", says: "who granted, by address or name of the key" },
          { name: "<grantee>", says: "who may, by address or name of the key" },
          { name: "[msg-type]", says: "type of the message; all without" },
        ],
        pages: "page",
        example: "pokt10d07y265gmmuvt4z0w9aw880jnsr700j8yv32t dao",
        ask: async (input) =>
          query<typeof authz.Query.method.grants>("/cosmos.authz.v1beta1.Query/Grants", {
            ...input.page(),
            granter: await input.address(input.args[0]),
            grantee: await input.address(input.args[1]),
            msgTypeUrl: input.args[2] ?? "",
          }),
      },
      {
        name: "grants-by-granter",
        says: "Shows what an account granted.",
        args: [ADDRESS],
        pages: "page",
        example: "pokt10d07y265gmmuvt4z0w9aw880jnsr700j8yv32t",
        ask: async (input) =>
          query<typeof authz.Query.method.granterGrants>("/cosmos.authz.v1beta1.Query/GranterGrants", {
            ...input.page(),
            granter: await input.address(input.args[0]),
          }),
      },
      {
        name: "grants-by-grantee",
        says: "Shows what was granted to an account.",
        args: [ADDRESS],
        pages: "page",
        example: "dao",
        ask: async (input) =>
          query<typeof authz.Query.method.granteeGrants>("/cosmos.authz.v1beta1.Query/GranteeGrants", {
            ...input.page(),
            grantee: await input.address(input.args[0]),
          }),
      },
    ],
  },
  {
    module: "staking",
    says: "validators and delegations",
    shape: "compact",
    rows: [
      {
        name: "validators",
        says: "Lists validators and their power.",
        flags: [{ flags: "--status <status>", says: "those with this status: BOND_STATUS_BONDED" }],
        pages: "page",
        example: "",
        ask: (input) =>
          query<typeof staking.Query.method.validators>("/cosmos.staking.v1beta1.Query/Validators", {
            ...input.page(),
            status: input.text("status"),
          }),
      },
      {
        name: "validator",
        says: "Shows a validator and its power.",
        args: [VALIDATOR],
        example: VALIDATOR_EXAMPLE,
        ask: ({ args: [validatorAddr = ""] }) =>
          query<typeof staking.Query.method.validator>("/cosmos.staking.v1beta1.Query/Validator", { validatorAddr }),
      },
      {
        name: "delegations",
        says: "Shows what an account delegates.",
        args: [ADDRESS],
        pages: "page",
        example: "delegator",
        ask: async (input) =>
          query<typeof staking.Query.method.delegatorDelegations>(
            "/cosmos.staking.v1beta1.Query/DelegatorDelegations",
            { ...input.page(), delegatorAddr: await input.address(input.args[0]) },
          ),
      },
      {
        name: "delegations-to",
        says: "Shows who delegates to a validator.",
        args: [VALIDATOR],
        pages: "page",
        example: VALIDATOR_EXAMPLE,
        ask: (input) =>
          query<typeof staking.Query.method.validatorDelegations>(
            "/cosmos.staking.v1beta1.Query/ValidatorDelegations",
            { ...input.page(), validatorAddr: input.args[0] ?? "" },
          ),
      },
      {
        name: "params",
        says: "Shows the module's parameters.",
        example: "",
        ask: () => query<typeof staking.Query.method.params>("/cosmos.staking.v1beta1.Query/Params", {}),
      },
    ],
  },
  {
    module: "upgrade",
    says: "changes of the chain's rules",
    shape: "compact",
    rows: [
      {
        name: "plan",
        says: "Shows the upgrade that is planned.",
        example: "",
        ask: () => query<typeof upgrade.Query.method.currentPlan>("/cosmos.upgrade.v1beta1.Query/CurrentPlan", {}),
      },
      {
        name: "applied",
        says: "Shows the height at which an upgrade was applied; 0 when it was not.",
        args: [{ name: "<upgrade-name>", says: "name of the upgrade" }],
        example: "v2",
        ask: ({ args: [name = ""] }) =>
          query<typeof upgrade.Query.method.appliedPlan>("/cosmos.upgrade.v1beta1.Query/AppliedPlan", { name }),
      },
      {
        name: "module-versions",
        says: "Lists the modules with the versions of their states.",
        args: [{ name: "[module]", says: "one module; all without" }],
        example: "",
        ask: ({ args: [moduleName = ""] }) =>
          query<typeof upgrade.Query.method.moduleVersions>("/cosmos.upgrade.v1beta1.Query/ModuleVersions", {
            moduleName,
          }),
      },
      {
        name: "authority",
        says: "Shows whose messages plan upgrades.",
        example: "",
        ask: () => query<typeof upgrade.Query.method.authority>("/cosmos.upgrade.v1beta1.Query/Authority", {}),
      },
    ],
  },
];
