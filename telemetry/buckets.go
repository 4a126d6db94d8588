package telemetry

// Bucket bounds of vLLM's histograms, in seconds unless the name says
// otherwise (vllm/v1/metrics/loggers.py). They are functions because the
// registry keeps the slices it is given.

// FirstTokenBuckets are the bounds of vllm:time_to_first_token_seconds.
func FirstTokenBuckets() []float64 {
	return []float64{
		.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75,
		1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560,
	}
}

// PerTokenBuckets are the bounds of vllm:inter_token_latency_seconds.
func PerTokenBuckets() []float64 {
	return []float64{
		.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75,
		1, 2.5, 5, 7.5, 10, 20, 40, 80,
	}
}

func requestBuckets() []float64 {
	return []float64{
		.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60,
		120, 240, 480, 960, 1920, 7680,
	}
}

func stepTokenBuckets() []float64 {
	return []float64{1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384}
}

func choiceBuckets() []float64 { return []float64{1, 2, 5, 10, 20} }

func preemptionBuckets() []float64 { return []float64{1, 2, 3, 4, 5, 10, 20} }

// shortBuckets resolves what should take one step at most.
func shortBuckets() []float64 {
	return []float64{
		.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10,
	}
}

// stepBuckets are a fifth of their bounds apart where steps are.
func stepBuckets() []float64 {
	return []float64{
		.00025, .0005, .001, .002, .003, .004, .005, .006, .008, .01, .012, .015, .018, .022, .026, .032, .04, .05, .06, .072, .086, .1, .12, .15, .18, .22, .26, .32,
		.4, .5, .6, .8, 1, 1.5, 2.5, 5, 10,
	}
}

// planBuckets resolves microseconds.
func planBuckets() []float64 {
	return []float64{
		.000001, .0000025, .000005, .00001, .000025, .00005, .0001, .00025, .0005, .001, .01, .1,
	}
}

// ratioBuckets resolve what is near 1.
func ratioBuckets() []float64 {
	return []float64{.25, .5, .75, .9, .95, 1, 1.05, 1.1, 1.25, 1.5, 2, 4, 8}
}

// sizeBuckets is the series 1, 2, 5, 10, 20, 50 … as far as limit tokens.
func sizeBuckets(limit int) []float64 {
	var bounds []float64
	for decade := 1; decade <= limit; decade *= 10 {
		for _, mantissa := range []int{1, 2, 5} {
			if mantissa*decade <= limit {
				bounds = append(bounds, float64(mantissa*decade))
			}
		}
		if decade > limit/10 {
			break // the next decade lies above the limit, and must not overflow
		}
	}
	return bounds
}

// queueWaitBuckets resolves waits shorter than vLLM's buckets do.
func queueWaitBuckets() []float64 {
	return []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 40, 80, 160}
}
