package configs

// Scheduler section.
type Scheduler struct{ MaxModelLen, MaxSeqs, MaxBatchTokens int }

func defaultScheduler() Scheduler { return Scheduler{MaxSeqs: 64, MaxBatchTokens: 512} }
