/* An exception that no one catches in a thread: the process aborts, as without heddle. */
#include <stdexcept>
#include <thread>

int main()
{
	std::thread([] { throw std::runtime_error("nobody catches this"); }).join();
	return 0;
}
