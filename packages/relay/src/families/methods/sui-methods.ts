import { memberAt } from "../family.ts";
import { decimalHeight, FOREVER, found, HEAD, methodTable, own, read, SUBSCRIPTION, tip, WRITE } from "./rules.ts";

const checkpointOf = (result: unknown): number | undefined => decimalHeight(memberAt(result, "checkpoint"));

/** Kept once each of them is in a checkpoint. */
function highestCheckpoint(result: unknown): number | undefined {
  if (!Array.isArray(result) || result.length === 0) return undefined;
  let highest = 0;
  for (const one of result as readonly unknown[]) {
    const height = checkpointOf(one);
    if (height === undefined) return undefined;
    highest = Math.max(highest, height);
  }
  return highest;
}

/** Sui's JSON-RPC. Heights are checkpoints, and these are final; objects change between them. */
export const SUI_METHODS = methodTable(
  [
    ["sui_getChainIdentifier", read(FOREVER)],
    ["sui_getLatestCheckpointSequenceNumber", tip(HEAD, decimalHeight)],
    ["sui_getTotalTransactionBlocks", own(HEAD)],
    ["sui_getCheckpoint", read(found((result) => decimalHeight(memberAt(result, "sequenceNumber"))))],
    ["sui_getTransactionBlock", read(found(checkpointOf))],
    ["sui_multiGetTransactionBlocks", read(found(highestCheckpoint))],
    // Packages of the system change in place, between two epochs.
    ["sui_getMoveFunctionArgTypes sui_getNormalizedMoveFunction sui_getNormalizedMoveModule", read(HEAD)],
    ["sui_getNormalizedMoveModulesByPackage sui_getNormalizedMoveStruct", read(HEAD)],
    ["sui_getProtocolConfig suix_getReferenceGasPrice suix_getCommitteeInfo", read(HEAD)],
    ["sui_getCheckpoints sui_getEvents sui_getObject sui_multiGetObjects sui_getLoadedChildObjects", own()],
    ["sui_tryGetPastObject sui_tryMultiGetPastObjects sui_tryGetObjectBeforeVersion", own()],
    ["suix_getAllBalances suix_getAllCoins suix_getBalance suix_getCoinMetadata suix_getCoins", own()],
    ["suix_getDynamicFieldObject suix_getDynamicFields suix_getLatestSuiSystemState suix_getOwnedObjects", own()],
    ["suix_getStakes suix_getStakesByIds suix_getTotalSupply suix_getValidatorsApy", own()],
    ["suix_queryEvents suix_queryTransactionBlocks", own()],
    ["suix_resolveNameServiceAddress suix_resolveNameServiceNames", own()],
    ["sui_dryRunTransactionBlock sui_devInspectTransactionBlock sui_verifyZkLoginSignature", own()],
    ["sui_executeTransactionBlock", WRITE],
    ["suix_subscribeEvent suix_subscribeTransaction", SUBSCRIPTION],
  ],
  /^suix?_(?:get|query|multiGet|tryGet|tryMultiGet|dryRun|devInspect|resolve|verify)/,
);
