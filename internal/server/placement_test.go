package server_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/store/storetest"

	"weir/api/admin"
	"weir/internal/server/servertest"
	"weir/router/deployment"
)

// serving are the API addresses of the servers that answer as a deployment wants it.
func serving(v *admin.DeploymentView) (list []string) {
	for _, o := range v.Instances {
		if o.State == deployment.Serving && o.Generation == v.Generation {
			list = append(list, "http://"+o.Instance)
		}
	}
	return list
}

// untilReplicas waits until a router has the replicas of its model chat, and no others.
func untilReplicas(s *servertest.Server, want []string) {
	s.T.Helper()
	untilReplicasOf(s, "chat", want)
}

// untilReplicasOf waits until a router has the replicas of a model, and no others.
func untilReplicasOf(s *servertest.Server, model string, want []string) {
	s.T.Helper()
	slices.Sort(want)
	text := ""
	for end := time.Now().Add(servertest.Patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		_, text = s.Get(s.Admin + "/admin/replicas")
		var list struct{ Models []shownReplicas }
		if json.Unmarshal([]byte(text), &list) != nil {
			continue
		}
		i := slices.IndexFunc(list.Models, func(m shownReplicas) bool { return m.Model == model })
		if i < 0 {
			continue
		}
		var has []string
		for _, r := range list.Models[i].Replicas {
			if r.State == "ready" {
				has = append(has, "http://"+strings.TrimSuffix(strings.TrimPrefix(r.Replica, "http://"), "/v1"))
			}
		}
		if slices.Sort(has); slices.Equal(has, want) {
			return
		}
	}
	s.T.Fatalf("after %v the replicas are not %v:\n%s", servertest.Patience, want, text)
}

// discoveringRouter is a router without a list of replicas.
func discoveringRouter(t *testing.T, url, replica string) *servertest.Process {
	t.Helper()
	config := filepath.Join(t.TempDir(), "weir.yml")
	if err := os.WriteFile(config, []byte("models:\n  - name: chat\n    replicas:\n      - "+replica+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return servertest.StartProcess(t, 1024, servertest.Peppered, "--config", config, "--store", url)
}

// Two servers of three have a model, and a router finds them without a list. One that is killed is followed by the third within its
// lease, one that ends in order at once; the router sees both.
func TestPlacementAndDiscovery(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for the lease of a killed server")
	}
	t.Parallel()
	url := storetest.Postgres(t)
	start := func(flags ...string) *servertest.Process {
		return servertest.StartProcessWith(t, servertest.BriefLease, 1024, append([]string{servertest.Peppered, "--store", url, "--models-dir", t.TempDir()}, flags...)...)
	}
	servers := []*servertest.Process{start("--label", "role=decode", "--region", "eu"), start("--label", "role=decode", "--region", "eu"), start("--label", "role=decode", "--region", "eu")}
	other := start("--label", "role=batch")
	router := discoveringRouter(t, url, "{discover: store, node_selector: {role: decode}}")
	const body = `{"modelId": "chat", "version": "builtin", "resources": {"kvCacheBytes": "1MiB", "maxModelLen": 64}, "replicas": 2, "nodeSelector": {"role": "decode"}}`
	other.ApplyDeployment(body)
	two := func(v *admin.DeploymentView) bool { return v.State == deployment.Ready && len(serving(v)) == 2 }
	v := other.AwaitDeployment("chat", two)
	if v.Replicas != 2 || v.NodeSelector["role"] != "decode" {
		t.Errorf("%+v", v)
	}
	untilReplicas(router.Server, serving(&v))
	if status, _, _ := router.Said("chat"); status != http.StatusOK {
		t.Errorf("status %d", status)
	}
	_, text := router.Get(router.Admin + "/admin/replicas")
	if !strings.Contains(text, `"region":"eu"`) && !strings.Contains(text, `"region": "eu"`) {
		t.Errorf("replicas without their region: %s", text)
	}

	find := func(api string) *servertest.Process {
		return servers[slices.IndexFunc(servers, func(p *servertest.Process) bool { return p.API == api })]
	}
	killed, stays := find(serving(&v)[0]), serving(&v)[1]
	killed.Kill()
	begun := time.Now()
	v = other.AwaitDeployment("chat", func(v *admin.DeploymentView) bool { return two(v) && !slices.Contains(serving(v), killed.API) })
	t.Logf("after kill -9 another server has its part after %v", time.Since(begun))
	if !slices.Contains(serving(&v), stays) {
		t.Errorf("%v, without %s", serving(&v), stays)
	}
	untilReplicas(router.Server, serving(&v))
	if status, _, _ := router.Said("chat"); status != http.StatusOK {
		t.Errorf("after kill -9: status %d", status)
	}

	servers = append(servers, start("--label", "role=decode", "--region", "eu"))
	ends := find(serving(&v)[0])
	begun = time.Now()
	if err := ends.End(); err != nil {
		t.Errorf("%v", err)
	}
	v = other.AwaitDeployment("chat", func(v *admin.DeploymentView) bool { return two(v) && !slices.Contains(serving(v), ends.API) })
	t.Logf("after SIGTERM another server has its part after %v", time.Since(begun))
	untilReplicas(router.Server, serving(&v))

	other.ApplyDeployment(strings.NewReplacer(`"role": "decode"}`, `"gpu": "h100"}, "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
		{"matchExpressions": [{"key": "memory-mib", "operator": "Gt", "values": ["1"]}]}]}}}`).Replace(body))
	v = other.AwaitDeployment("chat", func(v *admin.DeploymentView) bool { return v.State == deployment.Unserved })
	if why := strings.Join(v.Why, "; "); !strings.Contains(why, "0 of 2 replicas have a server") || !strings.Contains(why, "it has no label gpu, and gpu=h100 is asked for") {
		t.Errorf("%s", why)
	}
	untilReplicas(router.Server, nil)
}

// Memory is counted before a server takes a part: what does not fit is said with the sums.
func TestPlacementSaysWhichMemoryIsMissing(t *testing.T) {
	t.Parallel() // most of it is waiting
	p := servertest.StartProcess(t, 1024, servertest.Peppered, "--store", "sqlite:"+t.TempDir()+"/weir.db", "--models-dir", t.TempDir(), "--model-memory-bytes", "128MiB")
	p.ApplyDeployment(`{"modelId": "big", "version": "builtin", "resources": {"kvCacheBytes": "1GiB"}, "replicas": 1}`)
	v := p.AwaitDeployment("big", func(v *admin.DeploymentView) bool { return v.State == deployment.Unserved })
	if why := strings.Join(v.Why, "; "); !strings.Contains(why, "0 of 1 replicas have a server") || !strings.Contains(why, "version builtin needs 1.0 GiB of memory, and ") {
		t.Errorf("%s", why)
	}
	for i := range 3 { // what was taken counts
		p.ApplyDeployment(fmt.Sprintf(`{"modelId": "m%d", "version": "builtin", "resources": {"kvCacheBytes": "40MiB"}, "replicas": 1}`, i))
	}
	states := func() (ready, unserved int) {
		for i := range 3 {
			v := p.AwaitDeployment(fmt.Sprint("m", i), func(v *admin.DeploymentView) bool { return v.State != deployment.Progressing })
			if v.State == deployment.Ready {
				ready++
			}
			if v.State == deployment.Unserved {
				unserved++
			}
		}
		return ready, unserved
	}
	ready, unserved := states()
	for end := time.Now().Add(servertest.Patience); (ready != 2 || unserved != 1) && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		ready, unserved = states() // a model finds no room beside one that is being loaded, and finds it when it is looked for again
	}
	if ready != 2 || unserved != 1 {
		t.Errorf("of three models of 40 MiB each in 128 MiB %d are ready, and %d unserved", ready, unserved)
	}
	for _, c := range []struct{ body, want string }{
		{`{"modelId": "a", "version": "builtin", "replicas": 0}`, "deployment.replicas"},
		{`{"modelId": "a", "version": "builtin", "replicas": 100000}`, "deployment.replicas"},
		{`{"modelId": "a", "version": "builtin", "nodeSelector": {"a b": "c"}}`, "label"},
		{`{"modelId": "a", "version": "builtin", "nodeSelector": ["a"]}`, "mapping"},
		{`{"modelId": "a", "version": "builtin", "affinity": {"podAffinity": {}}}`, "unknown key deployment.affinity.pod_affinity"},
		{`{"modelId": "a", "version": "builtin", "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Like"}]}]}}}}`, "operator"},
		{`{"modelId": "a", "version": "builtin", "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In"}]}]}}}}`, "takes 1 to"},
		{`{"modelId": "a", "version": "builtin", "replica": 2}`, "unknown key deployment.replica"},
	} {
		if status, text := p.ChangeDeployment(http.MethodPost, "", c.body); status != http.StatusBadRequest || !strings.Contains(text, c.want) {
			t.Errorf("%s: %d %s; want %q", c.body, status, text, c.want)
		}
	}
}

// slowly passes connections on to an address, and holds what it answers back for a while.
func slowly(t *testing.T, to string, d time.Duration) (at string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				s, err := net.Dial("tcp", to)
				if err != nil {
					return
				}
				defer s.Close()
				go func() { _, _ = io.Copy(s, c); s.Close() }() // one of both ends the other
				b := make([]byte, 1<<16)
				for {
					n, err := s.Read(b)
					time.Sleep(d)
					if _, failed := c.Write(b[:n]); err != nil || failed != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

// A store that answers after a twentieth of a second each time, so that one look takes longer than the time between two: a part is
// taken once, and the router finds it.
func TestPlacementOnASlowStore(t *testing.T) {
	if testing.Short() {
		t.Skip("each statement takes a twentieth of a second")
	}
	t.Parallel() // most of it is waiting
	fast := storetest.Postgres(t)
	u, err := url.Parse(fast)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = slowly(t, u.Host, 50*time.Millisecond)
	other := servertest.StartProcess(t, 1024, servertest.Peppered, "--store", fast, "--models-dir", t.TempDir()) // makes the tables
	servers := []*servertest.Process{servertest.StartProcess(t, 1024, servertest.Peppered, "--store", u.String(), "--models-dir", t.TempDir()), other}
	router := discoveringRouter(t, u.String(), "{discover: store}")
	for i := range 3 {
		servers[0].ApplyDeployment(fmt.Sprintf(`{"modelId": "chat", "version": "builtin", "resources": {"kvCacheBytes": "1MiB", "maxModelLen": 64, "maxSequences": %d}, "replicas": 1}`, i+1))
		v := servers[0].AwaitDeployment("chat", func(v *admin.DeploymentView) bool { return v.State == deployment.Ready && len(serving(v)) == 1 })
		untilReplicas(router.Server, serving(&v))
	}
}
