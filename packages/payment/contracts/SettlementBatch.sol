// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

/// @title EIP-3009 transfers of several payers in one transaction
/// @notice No transfer takes the gas of another. A token asks a payer with code whether it signed (ERC-1271), and that code
/// may burn all gas that it gets; any account can have code from one block to the next (EIP-7702). So a payer that has code
/// is left out, and every transfer has a gas limit, whatever its token does. After a transfer that failed late, as for want
/// of funds, the following ones of the same payer are left out: one account fails once, however many it signed.
/// @dev Anyone may call: a transfer is good by its payer's signature alone. There is no owner, no storage, no ether, no
/// constructor argument: the same code has the same address on every chain.
contract SettlementBatch {
    /// A token, and the arguments of its `transferWithAuthorization` with a signature as v, r and s.
    struct Transfer {
        address token;
        address from;
        address to;
        uint256 value;
        uint256 validAfter;
        uint256 validBefore;
        bytes32 nonce;
        uint8 v;
        bytes32 r;
        bytes32 s;
    }

    struct Result {
        bool success;
        bytes returnData;
    }

    /// Return data of a transfer that was left out.
    error PayerHasCode();
    /// Return data of a transfer that was left out behind a failed one of the same payer.
    error PayerFailed();

    uint256 private constant TRANSFER_SIZE = 0x140;
    /// Selector of {PayerHasCode}.
    uint256 private constant PAYER_HAS_CODE = 0x796b13ed;
    /// Selector of {PayerFailed}.
    uint256 private constant PAYER_FAILED = 0x2c331213;
    /// transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,uint8,bytes32,bytes32)
    uint256 private constant TRANSFER_WITH_AUTHORIZATION = 0xe3ee160e;
    /// Gas between the check of what remains and the call of a token, that call's own cost (EIP-2929) included.
    uint256 private constant CALL_GAS = 8_000;
    /// Start of the free memory: of the output, and of its offsets behind their own offset and number.
    uint256 private constant OUTPUT = 0x80;
    uint256 private constant HEADS = 0xc0;
    /// Gas of a failure that leaves the payer's following transfers out. A token refuses a nonce that is used, or a window that
    /// is closed, for less: a third party can bring that about for one payment, and it says nothing of the others. A token that
    /// finds no funds has marked the nonce as used before (22,100).
    uint256 private constant LATE_FAILURE_GAS = 25_000;
    /// Memory that Solidity keeps for scratch: the payer that failed last, and the gas before a call.
    uint256 private constant FAILED_PAYER = 0x00;
    uint256 private constant GAS_BEFORE = 0x20;
    /// A revert's sentence fits; more would be paid for outside the transfer's gas limit.
    uint256 private constant MAX_RETURN_SIZE = 0x100;

    /// @notice Makes each transfer with at most `gasEach` gas.
    /// @return One result a transfer, as Multicall3's `aggregate3` returns them. When too little gas remains for a transfer,
    /// neither it nor any after it is begun or has a result.
    function settle(uint256 gasEach, Transfer[] calldata transfers) external returns (Result[] memory) {
        assembly {
            let tail := add(HEADS, shl(5, transfers.length))
            let count := 0
            mstore(FAILED_PAYER, 0)
            for {} lt(count, transfers.length) { count := add(count, 1) } {
                // A call gets no more than 63/64 of what remains, and no error says so (EIP-150).
                {
                    let available := sub(gas(), shr(6, gas()))
                    if lt(available, CALL_GAS) { break }
                    if lt(sub(available, CALL_GAS), gasEach) { break }
                }

                let transfer := add(transfers.offset, mul(count, TRANSFER_SIZE))
                let data := add(tail, 0x60)
                let success := 0
                let size := 4
                mstore(data, shl(224, PAYER_HAS_CODE))
                if eq(calldataload(add(transfer, 0x20)), mload(FAILED_PAYER)) { mstore(data, shl(224, PAYER_FAILED)) }
                if iszero(
                    or(
                        eq(calldataload(add(transfer, 0x20)), mload(FAILED_PAYER)),
                        extcodesize(calldataload(add(transfer, 0x20)))
                    )
                ) {
                    mstore(data, shl(224, TRANSFER_WITH_AUTHORIZATION))
                    calldatacopy(add(data, 4), add(transfer, 0x20), sub(TRANSFER_SIZE, 0x20))
                    mstore(GAS_BEFORE, gas())
                    success := call(gasEach, calldataload(transfer), 0, data, sub(TRANSFER_SIZE, 0x1c), 0, 0)
                    if iszero(success) {
                        if gt(sub(mload(GAS_BEFORE), gas()), LATE_FAILURE_GAS) {
                            mstore(FAILED_PAYER, calldataload(add(transfer, 0x20)))
                        }
                    }
                    size := returndatasize()
                    if gt(size, MAX_RETURN_SIZE) { size := MAX_RETURN_SIZE }
                    returndatacopy(data, 0, size)
                }
                mstore(add(data, size), 0)
                mstore(add(HEADS, shl(5, count)), sub(tail, HEADS))
                mstore(tail, success)
                mstore(add(tail, 0x20), 0x40)
                mstore(add(tail, 0x40), size)
                tail := add(data, and(add(size, 0x1f), not(0x1f)))
            }
            mstore(OUTPUT, 0x20)
            mstore(add(OUTPUT, 0x20), count)
            return(OUTPUT, sub(tail, OUTPUT))
        }
    }
}
