package fleet

import (
	"net"
	"net/url"
	"slices"

	"weir/internal/inference"
	"weir/router/balance"
	"weir/router/prefix"
)

// A replica that is picked although another one has more of the prompt cached, is told where: it fetches the KV blocks from there
// where that is cheaper than computing them, which it knows best. Only weirs that make their hashes alike can do that, and only
// where the router knows the hashes: with a tokenizer and the replicas' block events.

const mostHolders = 8 // that are looked at

// holders are the replicas that have the longest prefixes of a prompt, before anything is sent for it.
func (b *blockIndex) holders(keys []prefix.Key) []prefix.Match {
	root := b.root.Load()
	if root == nil || root.told || len(keys) < balance.LeastFetch || len(b.secret) == 0 {
		return nil
	}
	return b.index.Lookup(make([]prefix.Match, 0, mostHolders), keys, 0)
}

// giving are those of the holders that give the request's blocks to others, and may.
func (fl *flight) giving() []prefix.Match {
	members := fl.fleet.members.Load()
	return slices.DeleteFunc(slices.Clone(fl.holders), func(m prefix.Match) bool {
		from := members.numbered[m.Replica]
		return from == nil || !from.sharesBlocks() || !from.in(Ready) || !fl.resides(from)
	})
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
	root, members := fl.fleet.blocks.root.Load(), fl.fleet.members.Load()
	for _, m := range fl.giving() { // longest first
		if m.Depth < own+balance.LeastFetch {
			break
		}
		from := members.numbered[m.Replica]
		if from == nil || from == to {
			continue
		}
		kv = inference.KVTransfer{
			DoRemotePrefill: true, RemoteURL: from.shares, RemoteModel: from.model, RemoteTokens: m.Depth * root.blockTokens,
		}
		if from == fl.prefill.by {
			kv.RemoteTokens, kv.RemoteComputed = fl.prefill.tokens, fl.prefill.computed
		}
		return kv
	}
	return kv
}

// sharesBlocks reports whether a replica gives others its KV blocks, and takes theirs.
func (r *replica) sharesBlocks() bool { return r.shares != "" }

// sharesAt is where other replicas ask a target for KV blocks; "" is nowhere. The addresses behind one name have a cache each: what is asked
// for is one of them. Over TLS the certificate is of the name, so that there is no way to the one.
func (t *Target) sharesAt() string {
	switch at, err := url.Parse(t.AdminURL); {
	case t.Kind != Weir || t.AdminURL == "" || err != nil:
		return ""
	case t.Address == "" || at.Hostname() != t.Base.Hostname():
		return t.AdminURL
	case at.Scheme == "http":
		at.Host = net.JoinHostPort(t.Address, portOf(at))
		return at.String()
	}
	return ""
}
