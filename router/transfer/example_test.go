package transfer_test

import (
	"bytes"
	"fmt"

	"weir/kvcache"
	"weir/router/transfer"
)

// A block goes from one weir to another. A reader of another build or model refuses it before it has read any block.
func Example() {
	id := kvcache.Identity{ModelDigest: "sha256:abc", KVType: "f16", Compute: "avx2", BlockTokens: 4, BlockBytes: 8}
	hash, ids := kvcache.Hash{7}, []int32{1, 2, 3, 4}

	var wire bytes.Buffer
	w, err := transfer.NewWriter(&wire, id)
	if err == nil {
		err = w.Block(hash, ids, []byte("8 bytes."))
	}
	if err == nil {
		err = w.End()
	}
	fmt.Println(err)
	sent := wire.Bytes()

	r, err := transfer.NewReader(bytes.NewReader(sent), id)
	if err != nil {
		fmt.Println(err)
		return
	}
	room := make([]byte, id.BlockBytes)
	got, err := r.Next(hash, room)
	fmt.Printf("%v %q %v\n", got, room, err)
	got, err = r.Next(kvcache.Hash{8}, room)
	fmt.Println(got, err)

	id.KVType = "q8_0"
	_, err = transfer.NewReader(bytes.NewReader(sent), id)
	fmt.Println(err)
	// Output:
	// <nil>
	// [1 2 3 4] "8 bytes." <nil>
	// [] <nil>
	// mismatch: the answer is of another identity
}
