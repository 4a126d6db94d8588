package capacity_test

import (
	"fmt"

	"weir/bench/capacity"
)

// How many replicas a load needs, and what of them is the limit.
func ExampleDemand_Need() {
	n, err := capacity.Demand{
		Rate: 20, Prompt: 1000, Output: 200, Cached: 0.5, // what clients ask for
		Prefill: 8000, Decode: 2000, Sequences: 64, // what one replica was measured to do
		Headroom: 0.3, Zones: 2,
	}.Need()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(n.Replicas, "replicas by", n.Limit()+",", n.Total, "with a zone's loss")
	fmt.Print(n)
	// Output:
	// 5 replicas by compute, 10 with a zone's loss
	// work of a request   = prompt x (1 - cached) / prefill rate + output / decode rate
	//                     = 1000 x 0.5 / 8000 + 200 / 2000 = 0.0625 + 0.1 = 0.163 s of a replica
	// by compute          = rate x work / (1 - headroom) = 20 x 0.163 / 0.7 = 4.64 replicas
	// replicas            = the greatest of these, rounded up = 5
	// without a zone      = ceil(replicas / (zones - 1)) x zones, over 2 zones = 10
}
