package fleet

import (
	"weir/internal/inference"
	"weir/router/prefix"
)

// A replica that is picked although another one has more of the prompt cached, is told where: it fetches the KV blocks from there
// where that is cheaper than computing them, which it knows best. Only weirs that make their hashes alike can do that, and only
// where the router knows the hashes: with a tokenizer and the replicas' block events.

const (
	leastTransfer = 16 // blocks that another replica must have more than the one that is picked
	mostHolders   = 8  // that are looked at
)

// holders are the replicas that have the longest prefixes of a prompt, before anything is sent for it.
func (f *Fleet) holders(keys []prefix.Key) []prefix.Match {
	root := f.root.Load()
	if root == nil || root.told || len(keys) < leastTransfer || len(f.config.Secret) == 0 {
		return nil
	}
	return f.balancer.Index().Lookup(make([]prefix.Match, 0, mostHolders), keys, 0)
}

// transfer is where a replica finds blocks of the request's prompt that it lacks; the zero value is nowhere.
func (fl *flight) transfer(to *replica) (kv inference.KVTransfer) {
	if len(fl.holders) == 0 || !to.sharesBlocks() {
		return kv
	}
	own := 0
	for _, m := range fl.holders {
		if m.Replica == to.number {
			own = m.Depth
		}
	}
	root, members := fl.fleet.root.Load(), fl.fleet.members.Load()
	for _, m := range fl.holders { // longest first
		from := members.numbered[m.Replica]
		if m.Depth < own+leastTransfer {
			break
		}
		if from == nil || from == to || !from.sharesBlocks() || !from.in(Ready) || !fl.resides(from) {
			continue
		}
		return inference.KVTransfer{
			DoRemotePrefill: true, RemoteURL: from.target.AdminURL, RemoteModel: from.model, RemoteTokens: m.Depth * root.blockTokens,
		}
	}
	return kv
}

// sharesBlocks reports whether a replica gives others its KV blocks, and takes theirs.
func (r *replica) sharesBlocks() bool { return r.target.Kind == Weir && r.target.AdminURL != "" }
