package deployed_test

import (
	"fmt"

	"weir/configs"
	"weir/internal/server/deployed"
	"weir/router/deployment"
)

// A deployment brings a version, which its model has as long as the deployment lists it. Until it is withdrawn no reload moves the name.
func Example() {
	versions := deployed.New()
	versions.Make(configs.Deployed("chat", configs.BuiltinPath, "v2", map[string]string{"max_num_seqs": "8"}), "")
	list := []deployment.Revision{{Version: "builtin", Label: "v2"}, {Version: "v1", Label: "v1"}} // v1 is the configuration's
	records, changed := versions.Offer("chat", list)
	fmt.Println(len(records), records[0].Version, changed, versions.Decides("chat"))
	versions.Set("chat", list)
	_, changed = versions.Offer("chat", list)
	fmt.Println("again:", changed)

	versions.Withdraw("chat")
	versions.Set("chat", nil)
	_, has := versions.Record("chat", "v2")
	fmt.Println(versions.Decides("chat"), has)
	// Output:
	// 1 v2 true true
	// again: false
	// false false
}
