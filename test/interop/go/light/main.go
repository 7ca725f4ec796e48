// Follows a chain with CometBFT's own light client: reads one question in JSON from standard input, asks the node over its
// RPC, and answers in JSON.
package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"time"

	dbm "github.com/cometbft/cometbft-db"
	"github.com/cometbft/cometbft/light"
	lighthttp "github.com/cometbft/cometbft/light/provider/http"
	"github.com/cometbft/cometbft/light/store/db"
	"github.com/cometbft/cometbft/light/provider"
)

type question struct {
	ChainID     string  `json:"chainId"`
	URL         string  `json:"url"`
	TrustHeight int64   `json:"trustHeight"`
	TrustHash   string  `json:"trustHash"`
	Heights     []int64 `json:"heights"`
	Sequential  bool    `json:"sequential"`
}

type answer struct {
	Hashes []string `json:"hashes"`
	Kept   int      `json:"kept"`
	Error  string   `json:"error"`
}

func run(q question) (answer, error) {
	hash, err := hex.DecodeString(q.TrustHash)
	if err != nil {
		return answer{}, err
	}
	primary, err := lighthttp.New(q.ChainID, q.URL)
	if err != nil {
		return answer{}, err
	}
	witness, err := lighthttp.New(q.ChainID, q.URL)
	if err != nil {
		return answer{}, err
	}
	mode := light.SkippingVerification(light.DefaultTrustLevel)
	if q.Sequential {
		mode = light.SequentialVerification()
	}
	store := db.New(dbm.NewMemDB(), q.ChainID)
	trust := light.TrustOptions{Period: 24 * time.Hour, Height: q.TrustHeight, Hash: hash}
	client, err := light.NewClient(context.Background(), q.ChainID, trust, primary, []provider.Provider{witness}, store, mode)
	if err != nil {
		return answer{}, err
	}
	var found answer
	for _, height := range q.Heights {
		block, err := client.VerifyLightBlockAtHeight(context.Background(), height, time.Now())
		if err != nil {
			return found, fmt.Errorf("height %d: %w", height, err)
		}
		found.Hashes = append(found.Hashes, hex.EncodeToString(block.Hash()))
	}
	found.Kept = int(store.Size())
	return found, nil
}

func main() {
	var q question
	if err := json.NewDecoder(os.Stdin).Decode(&q); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	found, err := run(q)
	if err != nil {
		found.Error = err.Error()
	}
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		os.Exit(1)
	}
}
