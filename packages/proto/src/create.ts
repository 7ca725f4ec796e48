/** Makes a message of a schema: `createMessage(bank.MsgSendSchema, { fromAddress })`. What is left out has its default. */
export { create as createMessage } from "@bufbuild/protobuf";
