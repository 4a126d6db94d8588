package fleet

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"weir/router"
)

const (
	lookupTimeout = 5 * time.Second
	discoverEvery = time.Second // at most, looks for servers on the store
	maxFileBytes  = 1 << 20
	maxReplicas   = 4096 // of one source
)

// discovery has the sources of a fleet, and the replicas that each gave when it was looked at last.
type discovery struct {
	config *Config // its sources are those that the fleet began with
	moved  func()  // is called after a source has given others

	mu      sync.Mutex
	sources []Source
	found   [][]Target    // by source
	changed chan struct{} // holds a value after the sources have changed
}

// set puts sources into force. What was found of those that stay is kept until they are looked at again.
func (d *discovery) set(sources []Source) error {
	found := make([][]Target, len(sources))
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, s := range sources {
		if s.URL != "" {
			base, err := parseBase(s.Kind, s.URL)
			if err != nil {
				return err
			}
			found[i] = []Target{{Base: base, Source: s}}
			continue
		}
		for j, old := range d.sources {
			if reflect.DeepEqual(old, s) {
				found[i] = d.found[j]
			}
		}
	}
	d.sources, d.found = sources, found
	return nil
}

// offers reports whether all sources have what some requests need.
func (d *discovery) offers(what router.Feature) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !slices.ContainsFunc(d.sources, func(s Source) bool { return !s.offers(what) })
}

// targets are the replicas of all sources.
func (d *discovery) targets() []Target {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Concat(d.found...)
}

// look begins to follow the sources that change. The caller calls stop, and waits for all.
func (d *discovery) look(ctx context.Context, all *sync.WaitGroup) (stop context.CancelFunc) {
	ctx, stop = context.WithCancel(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, s := range d.sources {
		if s.URL == "" {
			all.Go(func() { d.follow(ctx, i, s) })
		}
	}
	return stop
}

// follow looks at a source now and then. While looking fails, what was found last stays.
func (d *discovery) follow(ctx context.Context, i int, s Source) {
	failing := ""
	for {
		targets, err := d.targetsOf(ctx, s)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			failing = ""
			d.replace(ctx, i, s, targets)
		case err.Error() != failing:
			failing = err.Error()
			d.config.Changed(Change{s.DNS + s.File + s.Discover, "source failed", failing})
		}
		every := d.config.LookEvery
		if s.Discover != "" { // an indexed read
			every = min(every, discoverEvery)
		}
		if !pause(ctx, every) {
			return
		}
	}
}

// replace puts what a source gives now in its place, unless the sources have changed.
func (d *discovery) replace(ctx context.Context, i int, s Source, targets []Target) {
	d.mu.Lock()
	stale := ctx.Err() != nil || i >= len(d.sources) || !reflect.DeepEqual(d.sources[i], s) || slices.EqualFunc(d.found[i], targets, func(a, b Target) bool {
		return a.Address == b.Address && *a.Base == *b.Base && a.AdminURL == b.AdminURL && a.Region == b.Region
	})
	if !stale {
		d.found[i] = targets
	}
	d.mu.Unlock()
	if !stale {
		d.moved()
	}
}

// targetsOf are the replicas of a source.
func (d *discovery) targetsOf(ctx context.Context, s Source) ([]Target, error) {
	switch {
	case s.Discover != "":
		return d.discovered(ctx, s)
	case s.File != "":
		return s.ofFile()
	}
	return s.ofName(ctx)
}

// checkDiscover refuses what the servers say themselves.
func (s *Source) checkDiscover() error {
	switch {
	case s.Discover != DiscoverStore:
		return fmt.Errorf("a replica has discover: %q; it takes %s", s.Discover, DiscoverStore)
	case s.Kind != "" && s.Kind != Weir && s.Kind != OIP:
		return fmt.Errorf("a replica of kind %s has discover: store, and servers on a store are weirs; leave kind out, or give it for classical models: oip", s.Kind)
	case s.Region != "" || s.AdminURL != "":
		return errors.New("a replica has discover: store and a region or an admin_url, which the servers say themselves; leave them out, and select by node_selector: {region: …}")
	}
	return nil
}

// discovered asks the store for the servers that compute the model. One which no server has any more is told as such: then
// requests are refused at once.
func (d *discovery) discovered(ctx context.Context, s Source) ([]Target, error) {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	found, err := d.config.Discover(ctx, cmp.Or(s.Model, d.config.Model))
	if err != nil {
		return nil, fmt.Errorf("find replicas in the store: %w", err)
	}
	var targets []Target
	for _, server := range found {
		if !selects(s.NodeSelector, server.Labels) {
			continue
		}
		base, err := parseBase(s.Kind, server.URL)
		if err != nil {
			return nil, fmt.Errorf("find replicas in the store: %w", err)
		}
		t := Target{Base: base, Source: s}
		t.AdminURL, t.Region = server.AdminURL, server.Region
		targets = append(targets, t)
	}
	if len(targets) > maxReplicas {
		return nil, fmt.Errorf("find replicas in the store: there are %d; %d is the most", len(targets), maxReplicas)
	}
	return targets, nil
}

func selects(selector, labels map[string]string) bool {
	for key, value := range selector {
		if is, there := labels[key]; !there || is != value {
			return false
		}
	}
	return true
}

// ofName looks up the addresses of a name. Requests keep the name, for certificates and
// for servers that check it.
func (s Source) ofName(ctx context.Context) ([]Target, error) {
	base, err := parseBase(s.Kind, s.DNS)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", base.Hostname())
	if err != nil {
		return nil, err
	}
	for i := range addresses {
		addresses[i] = addresses[i].Unmap()
	}
	slices.SortFunc(addresses, netip.Addr.Compare)
	addresses = slices.Compact(addresses)
	if len(addresses) > maxReplicas {
		return nil, fmt.Errorf("%s has %d addresses; %d is the most", base.Hostname(), len(addresses), maxReplicas)
	}
	targets := make([]Target, len(addresses))
	for i, a := range addresses {
		targets[i] = Target{Base: base, Address: a.String(), Source: s}
	}
	return targets, nil
}

func portOf(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}

// ofFile reads a file of URLs. What follows # is a comment.
func (s Source) ofFile() ([]Target, error) {
	file, err := os.Open(s.File)
	if err != nil {
		return nil, fmt.Errorf("read replicas: %w", err)
	}
	defer func() { _ = file.Close() }() // only read
	text, err := io.ReadAll(io.LimitReader(file, maxFileBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read replicas: %w", err)
	case len(text) > maxFileBytes:
		return nil, fmt.Errorf("read replicas: %s is larger than %d bytes", s.File, maxFileBytes)
	}
	return s.parseFile(text)
}

func (s Source) parseFile(text []byte) ([]Target, error) {
	var targets []Target
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line, _, _ := strings.Cut(lines.Text(), "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		base, err := parseBase(s.Kind, line)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", s.File, n, err)
		}
		if targets = append(targets, Target{Base: base, Source: s}); len(targets) > maxReplicas {
			return nil, fmt.Errorf("%s has more than %d replicas", s.File, maxReplicas)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read replicas: %s: %w", s.File, err)
	}
	if len(targets) == 0 { // somebody is about to write it
		return nil, fmt.Errorf("read replicas: %s names none; those that were there stay", s.File)
	}
	return targets, nil
}
