"""What the tests of the page are made of.

::

    cast      the agents that a server knows: real recordings, played again
    server    a real `penstock serve`, which can be ended, killed and started anew
    proxy     a line between browser and server that can be cut, held and weighed
    device    a browser of somebody, which lets no error pass
    thread    the page, as a person sees it
"""
