package twin

import (
	"os"
	"os/exec"
	"testing"
)

// howVariable says how TestHow ends.
const howVariable = "HERDR_LINK_TWIN_TEST_HOW"

const selfVariable = "HERDR_LINK_TWIN_TEST_SELF"

func TestMain(m *testing.M) { os.Exit(Main(m)) }

func TestPath(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := Path(t)
	if (path == self) == RaceDetector {
		t.Errorf("the twin of %s is %s", self, path)
	}
	if out, err := exec.Command(path, "-test.list", "^TestPath$").CombinedOutput(); err != nil || string(out) != "TestPath\n" {
		t.Errorf("%v: %s", err, out)
	}
}

func TestRuns(t *testing.T) {
	t.Parallel()
	if Runs(t) != RaceDetector {
		t.Errorf("with the race detector: %t", RaceDetector)
	}
}

func TestHow(t *testing.T) {
	t.Parallel()
	switch os.Getenv(howVariable) {
	case "fails":
		t.Error("as it was told to")
	case "is skipped":
		t.Skip("as it was told to")
	case "exits":
		os.Exit(0)
	case "knows":
		if path, err := Original(); err != nil || path != os.Getenv(selfVariable) {
			t.Errorf("%s, %v", path, err)
		}
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if path, err := Original(); err != nil || path != self {
		t.Errorf("%s, not %s: %v", path, self, err)
	}
	for how, passes := range map[string]bool{"passes": true, "knows": true, "fails": false, "is skipped": false, "exits": false} {
		out, err := run(t, Path(t), "TestHow", howVariable+"="+how, selfVariable+"="+self)
		if (err == nil) != passes {
			t.Errorf("it %s: %v\n%s", how, err, out)
		}
	}
	if out, err := run(t, Path(t), "TestNone"); err == nil {
		t.Errorf("there is no such test: %s", out)
	}
}
