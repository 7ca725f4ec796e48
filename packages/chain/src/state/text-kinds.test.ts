import assert from "node:assert/strict";
import { test } from "node:test";
import type { DescMessage } from "@bufbuild/protobuf";
import { auth, cryptoMultisig, tx } from "@turnpike/proto";
import { pocketMachine } from "../app/pocket-machine.ts";
import { textKindOf } from "./text-kinds.ts";

/** Every text of a transaction, of a message and of a module's genesis, by type. A new one has to be listed here. */
const TEXTS: Readonly<Record<string, readonly string[]>> = {
  text: [
    "cosmos.auth.v1beta1.ModuleAccount.name",
    "cosmos.auth.v1beta1.ModuleAccount.permissions",
    "cosmos.authz.v1beta1.MsgRevoke.msg_type_url",
    "cosmos.bank.v1beta1.DenomUnit.aliases",
    "cosmos.bank.v1beta1.DenomUnit.denom",
    "cosmos.bank.v1beta1.Metadata.base",
    "cosmos.bank.v1beta1.Metadata.description",
    "cosmos.bank.v1beta1.Metadata.display",
    "cosmos.bank.v1beta1.Metadata.name",
    "cosmos.bank.v1beta1.Metadata.symbol",
    "cosmos.bank.v1beta1.Metadata.uri",
    "cosmos.bank.v1beta1.Metadata.uri_hash",
    "cosmos.bank.v1beta1.MsgSetSendEnabled.use_default_for",
    "cosmos.bank.v1beta1.SendEnabled.denom",
    "cosmos.base.v1beta1.Coin.denom",
    "cosmos.staking.v1beta1.Description.details",
    "cosmos.staking.v1beta1.Description.identity",
    "cosmos.staking.v1beta1.Description.moniker",
    "cosmos.staking.v1beta1.Description.security_contact",
    "cosmos.staking.v1beta1.Description.website",
    "cosmos.staking.v1beta1.Params.bond_denom",
    "cosmos.tx.v1beta1.TxBody.memo",
    "cosmos.upgrade.v1beta1.Plan.info",
    "cosmos.upgrade.v1beta1.Plan.name",
    "google.protobuf.Any.type_url",
    "pocket.application.MsgUpdateParam.name",
    "pocket.gateway.MsgUpdateParam.name",
    "pocket.proof.MsgUpdateParam.name",
    "pocket.service.MsgTransferService.service_id",
    "pocket.service.MsgUpdateParam.name",
    "pocket.service.RelayMiningDifficulty.service_id",
    "pocket.service.ServiceComputeUnitsPerRelayUpdate.service_id",
    "pocket.session.MsgUpdateParam.name",
    "pocket.session.SessionHeader.service_id",
    "pocket.session.SessionHeader.session_id",
    "pocket.shared.ApplicationServiceConfig.service_id",
    "pocket.shared.ConfigOption.value",
    "pocket.shared.MsgUpdateParam.as_string",
    "pocket.shared.MsgUpdateParam.name",
    "pocket.shared.Service.id",
    "pocket.shared.Service.name",
    "pocket.shared.SupplierEndpoint.url",
    "pocket.shared.SupplierServiceConfig.service_id",
    "pocket.supplier.MsgUpdateParam.name",
    "pocket.tokenomics.MsgUpdateParam.name",
    "tendermint.types.ValidatorParams.pub_key_types",
  ],
  integer: [
    "cosmos.base.v1beta1.Coin.amount",
    "cosmos.staking.v1beta1.MsgCreateValidator.min_self_delegation",
    "cosmos.staking.v1beta1.MsgEditValidator.min_self_delegation",
    "cosmos.staking.v1beta1.RedelegationEntry.initial_balance",
    "cosmos.staking.v1beta1.UnbondingDelegationEntry.balance",
    "cosmos.staking.v1beta1.UnbondingDelegationEntry.initial_balance",
    "cosmos.staking.v1beta1.Validator.min_self_delegation",
    "cosmos.staking.v1beta1.Validator.tokens",
  ],
  account: [
    "cosmos.auth.v1beta1.BaseAccount.address",
    "cosmos.auth.v1beta1.MsgUpdateParams.authority",
    "cosmos.authz.v1beta1.GrantAuthorization.grantee",
    "cosmos.authz.v1beta1.GrantAuthorization.granter",
    "cosmos.authz.v1beta1.MsgExec.grantee",
    "cosmos.authz.v1beta1.MsgGrant.grantee",
    "cosmos.authz.v1beta1.MsgGrant.granter",
    "cosmos.authz.v1beta1.MsgRevoke.grantee",
    "cosmos.authz.v1beta1.MsgRevoke.granter",
    "cosmos.bank.v1beta1.Balance.address",
    "cosmos.bank.v1beta1.Input.address",
    "cosmos.bank.v1beta1.MsgSend.from_address",
    "cosmos.bank.v1beta1.MsgSend.to_address",
    "cosmos.bank.v1beta1.MsgSetSendEnabled.authority",
    "cosmos.bank.v1beta1.MsgUpdateParams.authority",
    "cosmos.bank.v1beta1.Output.address",
    "cosmos.staking.v1beta1.Delegation.delegator_address",
    "cosmos.staking.v1beta1.MsgBeginRedelegate.delegator_address",
    "cosmos.staking.v1beta1.MsgCancelUnbondingDelegation.delegator_address",
    "cosmos.staking.v1beta1.MsgCreateValidator.delegator_address",
    "cosmos.staking.v1beta1.MsgDelegate.delegator_address",
    "cosmos.staking.v1beta1.MsgUndelegate.delegator_address",
    "cosmos.staking.v1beta1.MsgUpdateParams.authority",
    "cosmos.staking.v1beta1.Redelegation.delegator_address",
    "cosmos.staking.v1beta1.UnbondingDelegation.delegator_address",
    "cosmos.tx.v1beta1.Fee.granter",
    "cosmos.tx.v1beta1.Fee.payer",
    "cosmos.tx.v1beta1.Tip.tipper",
    "cosmos.upgrade.v1beta1.MsgCancelUpgrade.authority",
    "cosmos.upgrade.v1beta1.MsgSoftwareUpgrade.authority",
    "pocket.application.Application.address",
    "pocket.application.Application.delegatee_gateway_addresses",
    "pocket.application.ApplicationServiceConfigUpdate.application_address",
    "pocket.application.MsgDelegateToGateway.app_address",
    "pocket.application.MsgDelegateToGateway.gateway_address",
    "pocket.application.MsgStakeApplication.address",
    "pocket.application.MsgTransferApplication.destination_address",
    "pocket.application.MsgTransferApplication.source_address",
    "pocket.application.MsgUndelegateFromGateway.app_address",
    "pocket.application.MsgUndelegateFromGateway.gateway_address",
    "pocket.application.MsgUnstakeApplication.address",
    "pocket.application.MsgUpdateParam.authority",
    "pocket.application.MsgUpdateParams.authority",
    "pocket.application.PendingApplicationTransfer.destination_address",
    "pocket.application.UndelegatingGatewayList.gateway_addresses",
    "pocket.gateway.Gateway.address",
    "pocket.gateway.MsgStakeGateway.address",
    "pocket.gateway.MsgUnstakeGateway.address",
    "pocket.gateway.MsgUpdateGatewayMetadata.address",
    "pocket.gateway.MsgUpdateParam.authority",
    "pocket.gateway.MsgUpdateParams.authority",
    "pocket.proof.Claim.supplier_operator_address",
    "pocket.proof.MsgCreateClaim.supplier_operator_address",
    "pocket.proof.MsgSubmitProof.supplier_operator_address",
    "pocket.proof.MsgUpdateParam.authority",
    "pocket.proof.MsgUpdateParams.authority",
    "pocket.proof.Proof.supplier_operator_address",
    "pocket.service.MsgAddService.owner_address",
    "pocket.service.MsgTransferService.new_owner_address",
    "pocket.service.MsgTransferService.owner_address",
    "pocket.service.MsgUpdateParam.authority",
    "pocket.service.MsgUpdateParams.authority",
    "pocket.session.MsgUpdateParam.authority",
    "pocket.session.MsgUpdateParams.authority",
    "pocket.session.SessionHeader.application_address",
    "pocket.shared.MsgUpdateParam.authority",
    "pocket.shared.MsgUpdateParams.authority",
    "pocket.shared.Service.owner_address",
    "pocket.shared.ServiceConfigUpdate.operator_address",
    "pocket.shared.ServiceRevenueShare.address",
    "pocket.shared.Supplier.operator_address",
    "pocket.shared.Supplier.owner_address",
    "pocket.supplier.MsgStakeSupplier.operator_address",
    "pocket.supplier.MsgStakeSupplier.owner_address",
    "pocket.supplier.MsgStakeSupplier.signer",
    "pocket.supplier.MsgUnstakeSupplier.operator_address",
    "pocket.supplier.MsgUnstakeSupplier.signer",
    "pocket.supplier.MsgUpdateParam.authority",
    "pocket.supplier.MsgUpdateParams.authority",
    "pocket.tokenomics.MsgUpdateParam.as_string",
    "pocket.tokenomics.MsgUpdateParam.authority",
    "pocket.tokenomics.MsgUpdateParams.authority",
    "pocket.tokenomics.Params.dao_reward_address",
  ],
  decimal: [
    "cosmos.staking.v1beta1.CommissionRates.max_change_rate",
    "cosmos.staking.v1beta1.CommissionRates.max_rate",
    "cosmos.staking.v1beta1.CommissionRates.rate",
    "cosmos.staking.v1beta1.Delegation.shares",
    "cosmos.staking.v1beta1.MsgEditValidator.commission_rate",
    "cosmos.staking.v1beta1.Params.min_commission_rate",
    "cosmos.staking.v1beta1.RedelegationEntry.shares_dst",
    "cosmos.staking.v1beta1.Validator.delegator_shares",
  ],
  operator: [
    "cosmos.staking.v1beta1.Delegation.validator_address",
    "cosmos.staking.v1beta1.LastValidatorPower.address",
    "cosmos.staking.v1beta1.MsgBeginRedelegate.validator_dst_address",
    "cosmos.staking.v1beta1.MsgBeginRedelegate.validator_src_address",
    "cosmos.staking.v1beta1.MsgCancelUnbondingDelegation.validator_address",
    "cosmos.staking.v1beta1.MsgCreateValidator.validator_address",
    "cosmos.staking.v1beta1.MsgDelegate.validator_address",
    "cosmos.staking.v1beta1.MsgEditValidator.validator_address",
    "cosmos.staking.v1beta1.MsgUndelegate.validator_address",
    "cosmos.staking.v1beta1.Redelegation.validator_dst_address",
    "cosmos.staking.v1beta1.Redelegation.validator_src_address",
    "cosmos.staking.v1beta1.UnbondingDelegation.validator_address",
    "cosmos.staking.v1beta1.Validator.operator_address",
  ],
};

function textsOf(roots: readonly DescMessage[]): Record<string, string[]> {
  const seen = new Set<string>();
  const texts: Record<string, string[]> = {};
  const walk = (schema: DescMessage): void => {
    if (seen.has(schema.typeName)) return;
    seen.add(schema.typeName);
    for (const field of schema.fields) {
      if (field.message !== undefined) walk(field.message);
      const kind = textKindOf(field, schema);
      if (kind === undefined) continue;
      texts[kind] ??= [];
      texts[kind].push(`${schema.typeName}.${field.name}`);
    }
  };
  for (const root of roots) walk(root);
  return Object.fromEntries(Object.entries(texts).map(([kind, names]) => [kind, names.sort()]));
}

/** Every text of the lists that a genesis has beside the real chain's messages, by type. */
const LIST_TEXTS: Readonly<Record<string, readonly string[]>> = {
  account: [
    "application.unfinished_transfers.address",
    "application.unfinished_unbonding.address",
    "auth.unordered_nonces.address",
    "gateway.undelegating_gateways.address",
    "gateway.unfinished_unbonding.address",
    "proof.held_claims.supplier_operator_address",
    "session.records_history.application.key",
    "session.records_history.service_owner.value",
    "supplier.last_activated.operator_address",
    "supplier.never_served_operators",
    "supplier.unfinished_unbonding.address",
  ],
  text: [
    "proof.held_claims.session_id",
    "session.records_history.application.record",
    "session.records_history.proof_params.key",
    "session.records_history.proof_params.record",
    "session.records_history.service_owner.key",
    "session.records_history.service_owner.record",
    "session.records_history.tokenomics_params.key",
    "session.records_history.tokenomics_params.record",
    "supplier.last_activated.service_id",
    "tokenomics.due_difficulties.service_id",
    "tokenomics.relays_of_part.service_id",
    "upgrade.rules.name",
  ],
};

test("every text of messages and genesis has its type", () => {
  const { modules } = pocketMachine({ gasPrices: [] });
  const roots: DescMessage[] = [tx.TxRawSchema, tx.TxBodySchema, tx.AuthInfoSchema];
  // What the `Any`s of accounts and signers hold.
  roots.push(auth.BaseAccountSchema, auth.ModuleAccountSchema, cryptoMultisig.LegacyAminoPubKeySchema);
  for (const { messages = {}, genesis } of modules) {
    for (const { schema } of Object.values(messages)) roots.push(schema);
    if (genesis?.message !== undefined) roots.push(genesis.message.schema);
    for (const { entry } of genesis?.lists ?? []) roots.push(...entry.schemas);
  }
  assert.deepEqual(textsOf(roots), TEXTS);
});

test("every text of a genesis' lists has its type", () => {
  const texts: Record<string, string[]> = {};
  for (const { name, genesis } of pocketMachine({ gasPrices: [] }).modules) {
    for (const { field, entry } of genesis?.lists ?? []) {
      for (const [path, kind] of Object.entries(entry.texts)) {
        texts[kind] ??= [];
        texts[kind].push([name, field, path].filter((part) => part !== "").join("."));
      }
    }
  }
  assert.deepEqual(Object.fromEntries(Object.entries(texts).map(([kind, names]) => [kind, names.sort()])), LIST_TEXTS);
});

test("every module with a state has a genesis that is read by these types", () => {
  const { modules } = pocketMachine({ gasPrices: [] });
  assert.deepEqual(
    modules.filter(({ genesis }) => genesis === undefined).map(({ name }) => name),
    [],
  );
});
