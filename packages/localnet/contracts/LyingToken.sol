// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

/// @title A token that says yes and moves nothing, for tests
/// @notice Same domain, name and balances as the honest one; every authorised transfer succeeds without an event.
contract LyingToken {
    mapping(address => uint256) internal _balances; // slot 0, as in TestUsd

    string public constant name = "USDC";
    string public constant symbol = "USDC";
    string public constant version = "2";
    uint8 public constant decimals = 6;

    function DOMAIN_SEPARATOR() public view returns (bytes32) {
        return keccak256(
            abi.encode(
                keccak256("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"),
                keccak256(bytes(name)),
                keccak256(bytes(version)),
                block.chainid,
                address(this)
            )
        );
    }

    function balanceOf(address account) external view returns (uint256) {
        return _balances[account];
    }

    function authorizationState(address, bytes32) external pure returns (bool) {
        return false;
    }

    function transfer(address, uint256) external pure returns (bool) {
        return true;
    }

    function transferWithAuthorization(
        address,
        address,
        uint256,
        uint256,
        uint256,
        bytes32,
        uint8,
        bytes32,
        bytes32
    ) external pure returns (bool) {
        return true;
    }

    function transferWithAuthorization(address, address, uint256, uint256, uint256, bytes32, bytes memory)
        external
        pure
        returns (bool)
    {
        return true;
    }
}
