import type { application, gateway, proof, service, supplier } from "@turnpike/proto";
import { CARD_FLAGS, CONFIG_FLAG, message, type TxTable } from "./row.ts";

const GATEWAY = { name: "<gateway-address>", says: "address of the gateway, or the name of its key" };

const APPLICATION: TxTable = {
  module: "application",
  says: "stake applications, delegate them to gateways, transfer and unstake them",
  rows: [
    {
      name: "stake-application",
      says: "Stakes an application for a service, or raises its stake.",
      flags: [CONFIG_FLAG],
      example: "--config application.yaml --from application-1",
      make: async (input) => [await stakeApplication(input)],
    },
    {
      name: "stake-and-delegate",
      says: "Stakes an application and delegates it to the stake file's gateway_addresses, in one transaction.",
      flags: [CONFIG_FLAG],
      example: "--config application.yaml --from application-1",
      make: async (input) => {
        const { gatewayAddresses } = await input.applicationStake();
        const delegations = gatewayAddresses.map((gatewayAddress) => delegate(input.from, gatewayAddress));
        return [await stakeApplication(input), ...delegations];
      },
    },
    {
      name: "unstake-application",
      says: "Unstakes the application that signs.",
      example: "--from application-1",
      make: async ({ from }) => [
        message<typeof application.MsgUnstakeApplicationSchema>("pocket.application.MsgUnstakeApplication", {
          address: from,
        }),
      ],
    },
    {
      name: "delegate-to-gateway",
      says: "Lets a gateway sign relays of the application that signs.",
      args: [GATEWAY],
      example: "gateway-1 --from application-1",
      make: async (input) => [delegate(input.from, await input.address(input.args[0]))],
    },
    {
      name: "undelegate-from-gateway",
      says: "Takes a gateway's delegation back.",
      args: [GATEWAY],
      example: "gateway-1 --from application-1",
      make: async (input) => [
        message<typeof application.MsgUndelegateFromGatewaySchema>("pocket.application.MsgUndelegateFromGateway", {
          appAddress: input.from,
          gatewayAddress: await input.address(input.args[0]),
        }),
      ],
    },
    {
      name: "transfer",
      says: "Transfers a staked application to an address that has none.",
      args: [
        { name: "<source>", says: "address of the application, which signs" },
        { name: "<destination>", says: "address that it goes to" },
      ],
      example: "application-1 pokt1zuxqfe4rqkul8ktev7wm648s9t4032h0adcqjh --from application-1",
      make: async (input) => [
        message<typeof application.MsgTransferApplicationSchema>("pocket.application.MsgTransferApplication", {
          sourceAddress: await input.address(input.args[0]),
          destinationAddress: await input.address(input.args[1]),
        }),
      ],
    },
  ],
};

type Input = Parameters<TxTable["rows"][number]["make"]>[0];

function delegate(appAddress: string, gatewayAddress: string) {
  return message<typeof application.MsgDelegateToGatewaySchema>("pocket.application.MsgDelegateToGateway", {
    appAddress,
    gatewayAddress,
  });
}

async function stakeApplication(input: Input) {
  const { stake, serviceIds, perSessionSpendLimit } = await input.applicationStake();
  return message<typeof application.MsgStakeApplicationSchema>("pocket.application.MsgStakeApplication", {
    address: input.from,
    stake,
    services: serviceIds.map((serviceId) => ({ serviceId })),
    ...(perSessionSpendLimit === undefined ? {} : { perSessionSpendLimit }),
  });
}

const GATEWAYS: TxTable = {
  module: "gateway",
  says: "stake and unstake gateways, publish their cards",
  rows: [
    {
      name: "stake-gateway",
      says: "Stakes a gateway, or raises its stake.",
      flags: [CONFIG_FLAG],
      example: "--config gateway.yaml --from gateway-1",
      make: async (input) => [
        message<typeof gateway.MsgStakeGatewaySchema>("pocket.gateway.MsgStakeGateway", {
          address: input.from,
          stake: await input.gatewayStake(),
        }),
      ],
    },
    {
      name: "unstake-gateway",
      says: "Unstakes the gateway that signs.",
      example: "--from gateway-1",
      make: async ({ from }) => [
        message<typeof gateway.MsgUnstakeGatewaySchema>("pocket.gateway.MsgUnstakeGateway", { address: from }),
      ],
    },
    {
      name: "update-gateway-metadata",
      says: "Publishes the card of the gateway that signs.",
      flags: CARD_FLAGS,
      example: "--card-file card.json --from gateway-1",
      make: async (input) => [
        message<typeof gateway.MsgUpdateGatewayMetadataSchema>("pocket.gateway.MsgUpdateGatewayMetadata", {
          address: input.from,
          metadata: { card: await input.neededCard() },
        }),
      ],
    },
  ],
};

const SUPPLIER: TxTable = {
  module: "supplier",
  says: "stake and unstake suppliers",
  rows: [
    {
      name: "stake-supplier",
      says: "Stakes a supplier, or changes its stake and services. Signed by its owner or its operator.",
      flags: [CONFIG_FLAG],
      example: "--config supplier.yaml --from supplier-1",
      make: async (input) => {
        const { ownerAddress, operatorAddress, stake, services } = await input.supplierStake();
        return [
          message<typeof supplier.MsgStakeSupplierSchema>("pocket.supplier.MsgStakeSupplier", {
            signer: input.from,
            ownerAddress,
            operatorAddress,
            ...(stake === undefined ? {} : { stake }),
            services: [...services],
          }),
        ];
      },
    },
    {
      name: "unstake-supplier",
      says: "Unstakes a supplier. Signed by its owner or its operator.",
      args: [{ name: "<operator-address>", says: "address of the operator, or the name of its key" }],
      example: "supplier-1 --from supplier-1",
      make: async (input) => [
        message<typeof supplier.MsgUnstakeSupplierSchema>("pocket.supplier.MsgUnstakeSupplier", {
          signer: input.from,
          operatorAddress: await input.address(input.args[0]),
        }),
      ],
    },
  ],
};

const SERVICE: TxTable = {
  module: "service",
  says: "add services, change them, hand them over",
  rows: [
    {
      name: "add-service",
      says: "Adds a service, or changes one of the signer's. A new one costs the fee of the service parameters.",
      args: [
        { name: "<id>", says: "up to 42 letters, digits, - and _" },
        { name: "<name>", says: "name for people, up to 169 characters" },
        { name: "[compute-units]", says: "compute units of a relay; 1 without" },
      ],
      flags: CARD_FLAGS,
      example: "my-service 'My service' 7 --from service-owner",
      make: async (input) => {
        const [id = "", name = "", units = "1"] = input.args;
        const card = await input.card();
        return [addService(input, { id, name, units: input.whole(units, "compute-units"), card })];
      },
    },
    {
      name: "edit-service",
      says: "Changes compute units and cards of many of the signer's services. What is so already is left out.",
      flags: [
        CONFIG_FLAG,
        { flags: "--disable-batch-msgs", says: "send a transaction for each service" },
        { flags: "--skip-card-validation", says: "send a card that is no JSON" },
      ],
      separateFlag: "disableBatchMsgs",
      example: "--config services.yaml --from service-owner",
      make: async (input) => {
        const changes = await input.serviceChanges();
        return changes.map((change) => addService(input, change));
      },
    },
    {
      name: "transfer-service",
      says: "Hands a service of the signer's over.",
      args: [
        { name: "<id>", says: "id of the service" },
        { name: "<new-owner>", says: "address of the new owner, or the name of its key" },
      ],
      example: "my-service dao --from service-owner",
      make: async (input) => [
        message<typeof service.MsgTransferServiceSchema>("pocket.service.MsgTransferService", {
          ownerAddress: input.from,
          serviceId: input.args[0] ?? "",
          newOwnerAddress: await input.address(input.args[1]),
        }),
      ],
    },
  ],
};

interface ServiceChange {
  readonly id: string;
  readonly name: string;
  readonly units: bigint;
  readonly card: Uint8Array | undefined;
}

function addService({ from }: Input, { id, name, units, card }: ServiceChange) {
  return message<typeof service.MsgAddServiceSchema>("pocket.service.MsgAddService", {
    ownerAddress: from,
    service: {
      id,
      name,
      computeUnitsPerRelay: units,
      ownerAddress: from,
      ...(card === undefined ? {} : { metadata: { card } }),
    },
  });
}

const HEADER = { name: "<session-header>", says: "session header: JSON, a file of it, or its base64" };

const PROOF: TxTable = {
  module: "proof",
  says: "claim the relays of a session, and prove them",
  rows: [
    {
      name: "create-claim",
      says: "Claims a session's relays by the root of their trie.",
      args: [HEADER, { name: "<root>", says: "root of the trie with its sums, in base64" }],
      example: "header.json AAAA… --from supplier-1",
      make: async (input) => [
        message<typeof proof.MsgCreateClaimSchema>("pocket.proof.MsgCreateClaim", {
          supplierOperatorAddress: input.from,
          sessionHeader: await input.sessionHeader(input.args[0]),
          rootHash: input.bytes(input.args[1], "root"),
        }),
      ],
    },
    {
      name: "submit-proof",
      says: "Proves a claim by a relay of it.",
      args: [HEADER, { name: "<proof>", says: "compact closest proof, in base64" }],
      example: "header.json AAAA… --from supplier-1",
      make: async (input) => [
        message<typeof proof.MsgSubmitProofSchema>("pocket.proof.MsgSubmitProof", {
          supplierOperatorAddress: input.from,
          sessionHeader: await input.sessionHeader(input.args[0]),
          proof: input.bytes(input.args[1], "proof"),
        }),
      ],
    },
  ],
};

/** Commands of the relay protocol's own modules. */
export const POCKET_TX_TABLES: readonly TxTable[] = [APPLICATION, GATEWAYS, SUPPLIER, SERVICE, PROOF];
