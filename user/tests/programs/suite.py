# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs modules of Python's own tests: suite.py RESULTS SECONDS MODULE...

Writes a line `OUTCOME ID` for each test into the file RESULTS: ok, skipped, or failed; as soon as
it has ended, so that what was done by then is known if the process ends with its frames when the
time is over, and all of them sorted at the end. A test may be one of the modules, too.
"""

import faulthandler
import sys
import unittest

outcomes = {}


class Result(unittest.TextTestResult):
    def note(self, test, outcome):
        name = test.id() if hasattr(test, "id") else str(test)
        if outcomes.get(name) != "failed":
            outcomes[name] = outcome

    def stopTest(self, test):
        super().stopTest(test)
        with open(sys.argv[1], "a") as file:
            file.write("%s %s\n" % (outcomes.get(test.id(), "failed"), test.id()))

    def addSuccess(self, test):
        super().addSuccess(test)
        self.note(test, "ok")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.note(test, "skipped")

    def addExpectedFailure(self, test, error):
        super().addExpectedFailure(test, error)
        self.note(test, "ok")

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.note(test, "failed")

    def addError(self, test, error):
        super().addError(test, error)
        self.note(test, "failed")

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self.note(test, "failed")

    def addSubTest(self, test, subtest, error):
        super().addSubTest(test, subtest, error)
        if error is not None:
            self.note(test, "failed")


if __name__ == "__main__":
    results, seconds, names = sys.argv[1], float(sys.argv[2]), sys.argv[3:]
    faulthandler.dump_traceback_later(seconds, exit=True)
    import test.test_socket

    # In a virtual machine they wait for a host that may not answer.
    test.test_socket.ThreadedVSOCKSocketStreamTest.__unittest_skip__ = True
    tests = unittest.defaultTestLoader.loadTestsFromNames(names)
    unittest.TextTestRunner(resultclass=Result, verbosity=2).run(tests)
    faulthandler.cancel_dump_traceback_later()
    with open(results, "w") as file:
        for name in sorted(outcomes):
            file.write("%s %s\n" % (outcomes[name], name))
