module turnpike.test/interop

go 1.24.3

require (
	github.com/decred/dcrd/dcrec/secp256k1/v4 v4.1.0
	github.com/pokt-network/go-dleq v0.0.0-20250925202155-488f42ad642a
	github.com/pokt-network/ring-go v0.1.1-0.20250925213458-782cc69bc1ec
	github.com/pokt-network/smt v0.14.1
	google.golang.org/protobuf v1.36.5
)

require (
	filippo.io/edwards25519 v1.0.0 // indirect
	github.com/ethereum/go-ethereum v1.14.12 // indirect
	golang.org/x/crypto v0.36.0 // indirect
	golang.org/x/sys v0.31.0 // indirect
)
