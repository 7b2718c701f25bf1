"""Common words: English that everybody uses at home, so that it is nobody's name and no surprise to a recogniser."""

from __future__ import annotations

from edgemem.recall.words import STOP_WORDS

_COMMON = """
able accident across act add address afternoon age ago agree air alarm alive allergic allergies allergy allow almost
alone along already alright although always amount angry animal announce another answer anybody anymore anyone
anything anyway apartment apple appointment april arm around arrive art ask asleep ate attach august aunt autumn
awake away awesome baby back backpack bad bag bake balcony ball balls banana band bank bar bark basement basket bath
bathroom battery bean beans bear beat beautiful became become bed bedroom bee been beer began begin behind believe
bell belong beside best bet better big bike bill bills bin bird birthday bit bite black blanket blood blow blue board
boat body boil book books boot boots boring born borrow boss bottle bottom bought bowl box boy boys brain bread break
breakfast bring broke broken brother brothers brought brown brush buddy build burn bus business busy butter button
buy cabinet cable cake calendar call called calm came camera camp candle car card cards care careful carpet carrot
carry cars case cat catch cats caught cause ceiling cell cellar center chair chance change charge cheap check cheese
chef chicken child children chips chocolate choose city class clean clear climb clinic clock close closed closet
cloth clothes cloud club coat code coffee cold color colour come comes coming company cook cooked cookie cookies
cooking cool copy corn corner cost couch cough count country couple course court cousin cover cream credit cross cry
cup cupboard curtain curtains customer cut dad daddy dance dark data date dates daughter day days dead deal dear
december decide deep degree degrees delivery dentist desk dessert diet difference different dinner dirty dish dishes
dishwasher doctor doctors dog dogs dollar dollars done door doors double doubt downstairs dozen draw drawer dream
dress drink drinks drive driver drop dry dryer dude due dust duty eager ear early earn ears earth east easy eat eating
egg eggs eight eighteen eighty either elbow eleven else email empty end energy engine english enjoy enough enter entire
evening event everybody everyone everything exactly exam example except excited excuse exercise expect expensive
explain extra eye eyes face fact fall family fan far farm fast fat father favorite favourite fear february feed feel
feeling feet fell felt fence fever fifteen fifty fight fill film final finally find fine finger finish fire first fish
fit five fix flat flight floor flour flower flowers fly fold follow food foot forecast forest forever forget forgot
fork forty forward found four fourteen free freezer fresh friday fridge friend friends front fruit full fun funny
furniture future game games garage garbage garden gas gate gave gift gifts girl girls give given glad glass glasses
gloves glue goal gold gone good goodbye grade grandma grandmother grandpa grandfather grass gray great green grey grocery
groceries ground group grow guess guest guests guitar guy guys gym hair half hall hallway hand handle hands hang happen
happened happens happy hard hat hate head health hear heard heart heat heater heating heavy height hello help hey hi
hidden hide high hill hit hobby hold holiday home homework honest honey hope horse hospital hot hotel hour hours house
hundred hungry hurry hurt husband ice idea important inch inside instead interest internet invite iron island jacket
jam january jeans job jobs join joke juice july jump june keep kept kettle key keys kick kid kids kill kilo kind king
kitchen knee knew knife knock know known knows ladder lady lake lamp land language laptop large last late later laugh
laundry law lawn lay lazy lead leak learn leave leaves left leg legs lemon less lesson lessons letter letters library
lie life lift light lights like liked likes line link lip list listen litre liter little live lives living loan lock
lonely long look looking looks lose lost lot loud love loved loves low luck lucky lunch machine made magazine mail main
make makes making man manager many map march mark market married mask matter may maybe meal mean means meant meat
medicine medication medium meet meeting member memory men menu mess message met metal meter middle might mile milk
million mind minute minutes mirror miss missed mobile moment monday money month months mood moon morning mostly mother
mountain mouse mouth move movie movies much mug mum mom mummy mommy music must nail name named names nap near nearly
neck need needed needs neighbor neighbour nephew nervous never new news next nice niece night nine nineteen ninety
nobody noise none noon nose note notes nothing november number nurse nut nuts october oil old olive one onion open
opened opener orange order outside oven owe pack page paid pain paint pair pan pants paper parcel parent parents park
part party pass password past pasta path pay payment peace peanut peanuts pear pen pencil people pepper percent perfect
perhaps person pet pets pharmacy phone photo piano pick picture piece pill pills pin pink pizza place plan plane plant
plants plate play played player playing pleasant plug plus pocket point police pool poor possible post pot potato
potatoes pound power practice prefer prefers present press pretty price print probably problem program project promise
pull puppy purple push put puzzle quarter question questions quick quickly quiet quite race radio rain raining ran
rather reach read ready real reason recipe red refrigerator regular remember remind reminder remote rent repair repeat
reply rest restaurant return rice rich ride right ring river road robot rock roof room rooms root rope rose rough round
row rows rule run running sad safe said salad sale salt sand sat saturday sauce save saw say saying says school
scissors score sea seat second secret see seed seem seen self sell send sent september serious serve set setting seven
seventeen seventy several shade shadow shall shape share sharp shed sheet shelf shine ship shirt shirts shoe shoes shop
shopping short shot shoulder shout show shower shut shy sick side sign silver simple since sing singer single sink
sister sisters sit six sixteen sixty size skin sky sleep sleeping slept slice slow small smart smell smile smoke smooth
snack snacks snow soap sock socks sofa soft sold some somebody someone something sometimes son song songs soon sore
sorry sort sound soup south space speak special speed spell spend spice spoke spoon sport spot spring square stage
stairs stand star start started state station stay step stick still stomach stood stop storage store storm story stove
straight street strong student study stuff sugar suit summer sun sunday sunny supper support suppose sure surprise
sweater sweet swim swimming switch table tablet take taken takes taking talk talked tall tank tap tape taste tea teach
teacher team teeth tell telling temperature ten terrible test text thank thanks theater thing things think thinks
thirsty thirteen thirty thought thousand three threw throat throw thursday ticket tie tight till time timer times tiny
tip tired toast today toe together toilet told tomato tomatoes tomorrow tonight took tool tools tooth top total touch
towel town toy toys train training trash travel tray tree trees trip trouble trousers truck true trust truth try tuesday
turn turned tv twelve twenty twice two type ugly umbrella uncle understand upstairs use used useful usual usually
vacation vacuum vegetable vegetables video view village visit voice wait waiting wake walk walked walking wall wallet
want wanted wants war warm warning wash washing waste watch water way weak wear weather website wednesday week weekend
weeks weight welcome well went west wet wheel white whole wide wife wifi wild win wind window windows wine winner winter
wish within without woke woman women wonder wonderful wood word words wore work worked working works world worried worry
worse worst worth wow write wrong wrote yard year years yellow yesterday young zero zoo
"""
COMMON_WORDS = STOP_WORDS.union(_COMMON.split())
"""Lower case, in the forms in which they are mostly said."""

_NAMES = """
aaron abby abigail ada adam adele adrian agnes ahmed al alan albert alex alexa alexander alexandra alfred ali alice alicia
alina alison allan alma amanda amber amelia amir amy ana andre andrea andreas andrew andy angela angelina anita ann anna
anne annette annie anthony anton antonia antonio archie ariana arthur ashley astrid audrey austin ava barbara barry basil
beatrice becky bella ben benjamin bernard bernd bert bertha beth betty bill billy blake bob bobby bonnie boris brad
brandon brenda brian bridget britta bruce bruno bryan caleb calvin cameron camilla carl carla carlos carmen carol caroline
carrie catherine cathy cecil celia charles charlie charlotte chris christian christina christine christoph christopher
cindy claire clara clark claudia claus colin connie connor cora craig curtis cynthia daisy damian dan dana daniel daniela
danny daphne darren dave david dawn dean debbie deborah denis denise dennis derek diana diane diego dirk dolores dominic don
donald donna dora doris dorothy doug douglas duncan dylan ed eddie edgar edith edna edward edwin eileen elaine eleanor elena
eli elias elisa elise elizabeth ella ellen elliot elsa emil emily emma eric erica erik erin ernest esther ethan eugene eva
evan eve evelyn felix fernando flora florence frances francis frank franz fred frederick frida frieda fritz gabriel gabriela
gary gavin gene george georgia gerald gerda gerhard gina gloria gordon grace graham greg gregory greta gus guy hannah hans
harold harriet harry harvey hassan hazel heather heidi heinz helen helena helene helga henry herbert herman hilda holly
horst howard hugo ian ida ines inga ingrid irene iris irma isaac isabel isabella ivan ivy jack jackie jacob jaime jake james
jamie jan jana jane janet janice janis jasmine jason jay jean jeff jeffrey jennifer jenny jeremy jerry jesse jessica jill
jim jimmy joan joanna joanne joe joel johanna john johnny jon jonas jonathan jordan jose joseph josh joshua joy joyce juan
juanita judith judy julia julian julie justin karen karin karina karl karla kate katherine kathleen kathy katie katrin keith
kelly ken kenneth kenny kerry kevin kim kirsten klaus kurt kyle lara larry laura lauren laurie lea leah lee lena leo leon
leonard leslie lewis liam lily lina linda linh lisa liz lois lola lorenzo louis louise lucas lucia lucy luis lukas luke lydia
lynn mabel mai mandy manuel mara marc marcel marco marcus margaret maria marie marina mario marion mark marlene martha
martin martina marvin mary mateo matt matthew maureen max maya megan mel melanie melissa mia michael michelle miguel mike
mila mildred miles minh miriam mohammed molly monica monika morgan murray myra nadia nancy naomi natalie nathan neil nell
nick nicholas nicola nicole nina noah noel nora norbert norma norman olga oliver olivia omar oscar otto owen pablo pam pamela
pat patricia patrick paul paula pauline pedro peggy penny perry pete peter petra phil philip phyllis pia priya rachel ralf
ralph ramona ray raymond rebecca regina rene ricardo richard rick rita rob robert roberta robin rod roger roland ron ronald
rory rosa rose rosie ross roy ruben ruby rudi rudolf russell ruth ryan sabine sally sam samantha samuel sandra sara sarah
scott sean sebastian selma sergio seth shane shannon sharon shaun shawn sheila shirley sidney silvia simon simone sofia
sonia sophia sophie stan stefan stella stephanie stephen steve steven stuart sue susan susanne sven sylvia tamara tania tara
ted teresa terry tess thea theo theresa thomas tim timothy tina toby todd tom tommy tony tracy trevor tristan troy tyler
ursula uwe valerie vanessa vera verena vernon veronica vicky victor victoria vincent viola violet virginia vivian walter wanda
warren wayne wendy werner wilhelm will william winston wolfgang yolanda yusuf yvonne zoe
"""
COMMON_NAMES = frozenset(_NAMES.split())
"""First names that a recogniser writes rightly, so that who is called so is mostly meant."""
