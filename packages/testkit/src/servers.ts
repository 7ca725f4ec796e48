// What stands on servers of a run, apart from the rest: it loads much that most tests need not.
export {
  delegateCode,
  deployGasBurner,
  deploySwitchWallet,
  parityWallet,
  type SwitchWallet,
} from "./delegation.ts";
export { startRedis, type TestRedis, withoutRedis } from "./redis.ts";
export { sendFromNewAccount, sendMined, type TransactionReceipt } from "./send-transaction.ts";
export {
  databasesOn,
  openTestAnvil,
  openTestPostgres,
  type SharedServers,
  startSharedServers,
  superuserUrl,
  type TestAnvil,
  type TestPostgres,
} from "./shared-servers.ts";
