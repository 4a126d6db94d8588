package bench

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"strconv"

	"weir/router/balance"
	"weir/router/prefix"
)

// SimulateCluster simulates the runs of a cluster: the same conversations, of the lengths in tokens that the runs' requests had, at replicas
// whose steps take what was measured and which share the processors that clients and router left them. What HTTP takes of the replicas' own
// time is not simulated.
func SimulateCluster(o *ClusterOptions, runs []*ClusterRun, m Machine, kvTokens int) ([]*FleetResult, error) {
	chats, err := tokensOf(&o.Chats, runs)
	if err != nil {
		return nil, fmt.Errorf("simulate the cluster: %w", err)
	}
	chats.Lasts = o.Duration
	var results []*FleetResult
	for _, run := range runs {
		policy, err := balance.ParsePolicy(run.Policy)
		if err != nil {
			return nil, err
		}
		r, err := SimulateFleet(FleetOptions{
			Replicas: o.Replicas, Policy: policy, Load: FleetLoad{Chats: chats}, Machine: m, Cores: run.left(),
			KVTokens: kvTokens, Report: -1, Seed: o.Chats.Seed, // the replicas of a cluster report nothing
		})
		if err != nil {
			return nil, err
		}
		results = append(results, r)
	}
	return results, nil
}

// left is how many processors the clients and the router left to the replicas.
func (r *ClusterRun) left() float64 {
	return float64(runtime.NumCPU()) - r.Beside.Seconds()/r.Duration.Seconds()
}

// tokensOf reads from what runs did how many tokens their conversations' parts have, in the mean.
func tokensOf(c *Chats, runs []*ClusterRun) (*FleetChats, error) {
	var firsts, first, laters, later, answers, answer float64
	last := make(map[[2]int]*Turn) // of a run's client
	for i, run := range runs {
		for j := range run.Turns {
			t := &run.Turns[j]
			if !t.ok() || t.PromptTokens == 0 {
				continue
			}
			answers, answer = answers+1, answer+float64(t.OutputTokens)
			before := last[[2]int{i, t.Client}]
			switch {
			case t.Number == 0:
				firsts, first = firsts+1, first+float64(t.PromptTokens)
			case before != nil && before.Number == t.Number-1:
				laters, later = laters+1, later+float64(t.PromptTokens-before.PromptTokens-before.OutputTokens)
			}
			last[[2]int{i, t.Client}] = t
		}
	}
	if firsts == 0 || laters == 0 && c.Turns > 1 {
		return nil, errors.New("no request told the tokens of its prompt")
	}
	user := later / max(laters, 1)
	words := float64(c.SystemWords + c.TurnWords)
	const wordBytes = 5.3 // mean of the vocabulary, with a space
	tokens := func(f float64) int { return max(1, int(math.Round(f))) }
	return &FleetChats{
		Chats: *c, System: tokens(first/firsts - user), User: tokens(user), Answer: tokens(answer / answers),
		Piece: tokens(first / firsts / words * prefix.PieceBytes / wordBytes), Pause: turnaround,
	}, nil
}

// figures are a simulated run's, as those of a real one.
func (r *FleetResult) figures() ClusterFigures {
	f := ClusterFigures{
		Requests: r.Requests, Failed: r.Failed + r.Cut, OutputPerSecond: r.PerSecond(), HitShare: r.HitRate(), ByReplica: make(map[string]int),
	}
	for i, p := range []float64{50, 90, 99} {
		f.TTFT[i] = 1000 * Percentile(r.TTFT, p)
	}
	for i, n := range r.ByReplica {
		f.ByReplica[strconv.Itoa(i)] = n
	}
	return f
}
