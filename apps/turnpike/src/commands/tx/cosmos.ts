import type { authz, bank, staking } from "@turnpike/proto";
import { message, type TxTable } from "./row.ts";

const BANK: TxTable = {
  module: "bank",
  says: "send coins",
  rows: [
    {
      name: "send",
      says: "Sends coins to another account.",
      args: [
        { name: "<from>", says: "address or name of the key that pays and signs" },
        { name: "<to>", says: "address of who receives, or the name of its key" },
        { name: "<amount>", says: "such as 1000upokt" },
      ],
      isFromFirst: true,
      example: "faucet application-1 1000000upokt",
      make: async (input) => [
        message<typeof bank.MsgSendSchema>("cosmos.bank.v1beta1.MsgSend", {
          fromAddress: input.from,
          toAddress: await input.address(input.args[1]),
          amount: input.coins(input.args[2]),
        }),
      ],
    },
    {
      name: "multi-send",
      says: "Sends the same amount to many.",
      args: [
        { name: "<from>", says: "address or name of the key that pays and signs" },
        { name: "<recipients...>", says: "addresses or names of keys, and last the amount for each" },
      ],
      flags: [{ flags: "--split", says: "share the amount evenly; what cannot be shared stays" }],
      isFromFirst: true,
      example: "faucet application-1 application-2 1000000upokt",
      make: async (input) => {
        const to = await Promise.all(input.args.slice(1, -1).map((text) => input.address(text)));
        const { each, all } = input.shares(input.args.at(-1), to.length);
        return [
          message<typeof bank.MsgMultiSendSchema>("cosmos.bank.v1beta1.MsgMultiSend", {
            inputs: [{ address: input.from, coins: all }],
            outputs: to.map((address) => ({ address, coins: each })),
          }),
        ];
      },
    },
  ],
};

const AUTHZ: TxTable = {
  module: "authz",
  says: "let others send messages in one's name, and send them; the DAO changes parameters this way",
  rows: [
    {
      name: "exec",
      says: "Sends messages in the name of who granted them to the signer.",
      args: [
        {
          name: "<file>",
          says: "messages in JSON, each with its @type: one, a list, or a transaction of --generate-only",
        },
      ],
      example: "messages.json --from dao",
      make: async (input) => [
        message<typeof authz.MsgExecSchema>("cosmos.authz.v1beta1.MsgExec", {
          grantee: input.from,
          msgs: await input.messages(input.args[0]),
        }),
      ],
    },
    {
      name: "grant",
      says: "Lets another account send a kind of message in the signer's name.",
      args: [
        { name: "<grantee>", says: "address of who may, or the name of its key" },
        { name: "<authorization>", says: "generic, which is without further limits" },
      ],
      flags: [
        { flags: "--msg-type <url>", says: "type of the message: /cosmos.bank.v1beta1.MsgSend", required: true },
        { flags: "--expiration <seconds>", says: "when it ends, in seconds since 1970; without one never" },
      ],
      example: "delegator generic --msg-type /cosmos.bank.v1beta1.MsgSend --from dao",
      make: async (input) => {
        const expiration = input.text("expiration");
        return [
          message<typeof authz.MsgGrantSchema>("cosmos.authz.v1beta1.MsgGrant", {
            granter: input.from,
            grantee: await input.address(input.args[0]),
            grant: {
              authorization: input.genericAuthorization(input.args[1]),
              ...(expiration === undefined
                ? {}
                : { expiration: { seconds: input.whole(expiration, "--expiration"), nanos: 0 } }),
            },
          }),
        ];
      },
    },
    {
      name: "revoke",
      says: "Takes a grant of the signer's back.",
      args: [
        { name: "<grantee>", says: "address of who might, or the name of its key" },
        { name: "<msg-type>", says: "type of the message: /cosmos.bank.v1beta1.MsgSend" },
      ],
      example: "delegator /cosmos.bank.v1beta1.MsgSend --from dao",
      make: async (input) => [
        message<typeof authz.MsgRevokeSchema>("cosmos.authz.v1beta1.MsgRevoke", {
          granter: input.from,
          grantee: await input.address(input.args[0]),
          msgTypeUrl: input.args[1] ?? "",
        }),
      ],
    },
  ],
};

const STAKING: TxTable = {
  module: "staking",
  says: "delegate coins to validators",
  rows: [
    {
      name: "delegate",
      says: "Delegates coins to a validator. A chain of Turnpike refuses it: it cannot undelegate yet.",
      args: [
        { name: "<validator-address>", says: "poktvaloper1…, as query staking validators shows it" },
        { name: "<amount>", says: "such as 1000upokt" },
      ],
      example: "poktvaloper1lvrxptamh6ws83x64x4m3stx0p5m94d7gq6yul 1000000upokt --from delegator",
      make: async (input) => [
        message<typeof staking.MsgDelegateSchema>("cosmos.staking.v1beta1.MsgDelegate", {
          delegatorAddress: input.from,
          validatorAddress: input.args[0] ?? "",
          amount: input.coin(input.args[1]),
        }),
      ],
    },
  ],
};

const UPGRADE: TxTable = {
  module: "upgrade",
  says: "plan a change of the chain's rules at a height, and take it back; the DAO may",
  rows: [
    {
      name: "software-upgrade",
      says: "Plans an upgrade: at its height only programs that have the rules of this name go on.",
      args: [{ name: "<name>", says: "name of the rules, as the release notes of the new version give it" }],
      flags: [
        { flags: "--upgrade-height <height>", says: "first block that is run by them", required: true },
        { flags: "--upgrade-info <text>", says: "what operators install: a version, or a supervisor's JSON" },
      ],
      example: "v2 --upgrade-height 5000 --upgrade-info 'turnpike 0.2.0' --from dao",
      make: async (input) => [
        message<typeof authz.MsgExecSchema>("cosmos.authz.v1beta1.MsgExec", {
          grantee: input.from,
          msgs: [input.upgradePlan(input.args[0])],
        }),
      ],
    },
    {
      name: "cancel-software-upgrade",
      says: "Takes the planned upgrade back.",
      example: "--from dao",
      make: async (input) => [
        message<typeof authz.MsgExecSchema>("cosmos.authz.v1beta1.MsgExec", {
          grantee: input.from,
          msgs: [input.upgradeCancel()],
        }),
      ],
    },
  ],
};

/** Commands of the modules that every chain of the Cosmos SDK has. */
export const COSMOS_TX_TABLES: readonly TxTable[] = [BANK, AUTHZ, STAKING, UPGRADE];
