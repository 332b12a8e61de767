//go:build race

package twin

const raceDetector = true
