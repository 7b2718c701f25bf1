"""What the constants of the estimate of tokens are set to, by language and by script."""

from __future__ import annotations

# What the estimate's constants are set to; the texts of `make lab ARGS=estimate` are those that they are not set to.
LATIN = {
    "English": [
        "Could you remind me tomorrow morning to call the dentist about Alice's appointment? She said it was moved from Tuesday to Thursday at half past nine, and don't forget the peanut allergy.",
        "The robot drove into the hallway, found the blue cup on the second shelf, and asked whether it should bring it back to the kitchen. Nobody answered, so it waited beside the door for a while and then went to charge its battery.",
        "ok what's the time now and uh can you turn the radio down a bit please i'm on the phone with my sister",
        "My grandson is coming over at the weekend, so we will need the folding bed from the cellar and some fresh sheets. Tell the vacuum to leave the guest room alone until Monday, because his train set is spread all over the carpet.",
        "Margaret Whitfield lives above the bakery with her nephew Desmond O'Leary and a terrier called Bramble. Her doctor is Dr Priya Raghunathan at Holloway Road, her lawyer Mr Cuthbertson of Pym and Daughters. On Sundays the Okonkwos come over: Chidi, Adaeze and little Tobenna, who plays chess with Uncle Fyodor. The plumber is Szymon Kowalczyk, the piano teacher Mlle Beauchamp. Nobody in Upper Thistlewick owns a car except Gwendolyn Ashworth and the vicar, Reverend Abernathy.",
    ],
    "German": [
        "Könntest du mich morgen früh daran erinnern, den Zahnarzt wegen Alices Termin anzurufen? Die Küchenmaschine hat die blaue Tasse auf das zweite Regalbrett gestellt.",
        "Der Staubsauger ist gestern Abend unter dem Sofa stecken geblieben, weil dort noch ein Ladekabel lag. Bitte räum das nächste Mal zuerst auf, bevor du ihn losschickst, und leere danach den Behälter aus.",
        "Am Wochenende kommt mein Enkel zu Besuch, deshalb brauchen wir das Klappbett aus dem Keller und frische Bettwäsche. Sag dem Staubsauger, dass er das Gästezimmer bis Montag in Ruhe lassen soll.",
    ],
    "French": [
        "Pourrais-tu me rappeler demain matin d'appeler le dentiste au sujet du rendez-vous d'Élise ? Il a été déplacé à jeudi, neuf heures et demie.",
        "Le petit robot a trouvé les lunettes de grand-père derrière le canapé, puis il les a apportées dans la cuisine. Personne n'avait pensé à regarder là-bas, et pourtant nous les cherchions depuis trois jours.",
        "Mon petit-fils vient ce week-end, il nous faudra donc le lit pliant de la cave et des draps propres. Dis à l'aspirateur de ne pas entrer dans la chambre d'amis avant lundi.",
    ],
    "Spanish": [
        "¿Puedes recordarme mañana por la mañana que llame al dentista por la cita de Alicia? La cambiaron del martes al jueves a las nueve y media, y no olvides la alergia a los cacahuetes.",
        "El perro de los vecinos ha vuelto a entrar en el jardín y se ha comido las flores que plantamos el fin de semana. Tendremos que arreglar la valla antes de que lleguen las lluvias.",
        "Mi nieto viene el fin de semana, así que necesitaremos la cama plegable del sótano y sábanas limpias. Dile a la aspiradora que no entre en la habitación de invitados hasta el lunes.",
    ],
    "Italian": [
        "Puoi ricordarmi domani mattina di telefonare al dentista per l'appuntamento di Alice? È stato spostato da martedì a giovedì alle nove e mezza.",
        "La lavatrice ha finito mezz'ora fa, ma nessuno ha steso i panni perché pioveva. Se domani esce il sole li mettiamo in giardino, altrimenti accendiamo l'asciugatrice.",
    ],
    "Portuguese": [
        "Podes lembrar-me amanhã de manhã de ligar ao dentista por causa da consulta da Alice? Foi mudada de terça para quinta-feira às nove e meia.",
        "O elevador do prédio está avariado desde ontem, por isso o robô não consegue descer sozinho para buscar o correio. A vizinha do terceiro andar ofereceu-se para ajudar até que venham repará-lo.",
    ],
    "Dutch": [
        "Kun je me er morgenochtend aan herinneren dat ik de tandarts moet bellen over de afspraak van Alice? Die is verplaatst van dinsdag naar donderdag om half tien.",
        "De sleutels lagen de hele tijd in de la naast het fornuis, onder een stapel oude kranten. Volgende keer hang ik ze meteen aan het haakje bij de voordeur, dan hoeft niemand meer te zoeken.",
        "Mijn kleinzoon komt in het weekend, dus we hebben het opklapbed uit de kelder nodig en schone lakens. Zeg tegen de stofzuiger dat hij tot maandag niet in de logeerkamer mag komen.",
        "Waar heb je de stofzuiger neergezet? Hij staat achter het gordijn in de bijkeuken, want de oplader bij de trap doet het niet meer. O ja, dat was ik vergeten. Wil je straks even nakijken hoeveel graden het in de kas is? Het is nu negentien graden en de luchtvochtigheid is 64 procent. Mooi, zet dan het raampje maar op een kiertje en geef de tomaten van mevrouw Hoogerwerf een half litertje water.",
    ],
    "Polish": [
        "Czy możesz mi jutro rano przypomnieć, żebym zadzwoniła do dentysty w sprawie wizyty Alicji? Przełożono ją z wtorku na czwartek na wpół do dziesiątej.",
        "Wczoraj wieczorem zgasło światło w całym domu i robot nie mógł znaleźć stacji ładującej. Dopiero gdy ktoś otworzył drzwi do kuchni, zobaczył lampkę i powoli do niej dojechał.",
        "Na weekend przyjeżdża mój wnuk, więc będziemy potrzebować składanego łóżka z piwnicy i świeżej pościeli. Powiedz odkurzaczowi, żeby do poniedziałku nie wjeżdżał do pokoju gościnnego.",
        "Słuchaj, czy ktoś dzwonił, kiedy byłam w ogrodzie? Tak, dwa razy ten sam numer, a potem listonosz zostawił paczkę u pani Wiśniewskiej z parteru. Dobrze, odbiorę ją wieczorem. Ile jeszcze zostało jabłek w skrzynce? Około trzydziestu, ale kilka już się psuje i trzeba je szybko przerobić na kompot. Przypomnij mi o tym w piątek po południu, bo wcześniej nie zdążę, muszę skończyć sweter dla Grzegorza.",
    ],
    "Turkish": [
        "Yarın sabah Alice'in randevusu için dişçiyi aramamı hatırlatır mısın? Salıdan perşembeye, dokuz buçuğa alınmış, fıstık alerjisini de unutma.",
        "Çocuklar bahçede oynarken top komşunun çatısına kaçtı, merdiveni getirip almak zorunda kaldık. Akşam yemeğinden önce hepimiz çok yorulmuştuk ama yine de çok eğlendik.",
        "Torunum hafta sonu geliyor, bu yüzden bodrumdaki katlanır yatağa ve temiz çarşaflara ihtiyacımız olacak. Süpürgeye söyle, pazartesiye kadar misafir odasına girmesin.",
        "Çamaşırları astın mı, yoksa hâlâ sepette mi duruyorlar? Balkona götürdüm ama mandal yetmedi, birkaç gömleği sandalyeye serdim. Peki, hava kararmadan içeri almayı unutma, gece yağmur gelecekmiş. Bir de şu saksıdaki fesleğene bak, yaprakları sararmaya başlamış. Toprağı kurumuş, iki bardak su verdim ve güneşten biraz uzaklaştırdım. Aferin, Nurhan teyze gelince ona da birkaç dal koparıp verelim.",
    ],
    "Swedish": [
        "Kan du påminna mig i morgon bitti om att ringa tandläkaren om Alices tid? Den har flyttats från tisdag till torsdag klockan halv tio.",
        "Katten har gömt sig bakom tvättmaskinen igen och vill inte komma fram förrän någon öppnar en burk tonfisk. Vi får väl vänta tills den blir hungrig.",
        "Mitt barnbarn kommer i helgen, så vi behöver tältsängen från källaren och rena lakan. Säg åt dammsugaren att låta gästrummet vara i fred till på måndag.",
        "Kan du säga till när bussen kommer? Den är försenad med elva minuter, så du hinner dricka upp kaffet i lugn och ro. Bra, då skär jag en smörgås till. Förresten, vem har ställt cykeln mitt i farstun? Det var nog Börje, han skulle laga bromsen men hittade ingen skiftnyckel. Be honom flytta den innan gästerna kommer på söndag, annars snubblar gamla moster Gunhild över den som förra året.",
    ],
    "Indonesian": [
        "Bisakah kamu mengingatkan saya besok pagi untuk menelepon dokter gigi tentang janji temu Alice? Katanya dipindahkan dari hari Selasa ke hari Kamis pukul setengah sepuluh.",
        "Lampu di ruang tamu sudah dua hari tidak menyala, mungkin bohlamnya perlu diganti. Kalau sempat, tolong belikan yang baru di toko dekat stasiun.",
        "Cucu saya akan datang akhir pekan ini, jadi kami memerlukan tempat tidur lipat dari gudang dan seprai bersih. Katakan kepada penyedot debu supaya tidak masuk ke kamar tamu sampai hari Senin.",
        "Tadi siapa yang mengetuk pintu? Tukang sayur, tetapi saya bilang Ibu sedang sembahyang, jadi dia akan kembali sekitar jam sepuluh. Baiklah, tolong siapkan uang lima puluh ribu dan keranjang yang besar. Apakah nasi di dapur masih cukup untuk makan siang? Masih ada kira-kira empat piring, tetapi sambalnya sudah habis sejak kemarin malam. Kalau begitu kita goreng tempe saja dan petik cabai dari halaman belakang Pak Suharto.",
    ],
    "Vietnamese": [
        "Bạn có thể nhắc tôi sáng mai gọi cho nha sĩ về cuộc hẹn của Alice không? Cô ấy nói nó được chuyển từ thứ ba sang thứ năm lúc chín giờ rưỡi.",
        "Hôm qua trời mưa to nên cả nhà không ra vườn được, bọn trẻ ngồi trong bếp vẽ tranh và nghe bà kể chuyện ngày xưa. Con mèo thì ngủ suốt buổi chiều bên cạnh cửa sổ.",
        "Nhớ mua thêm sữa, trứng và hai ký gạo, đừng quên là em bé bị dị ứng với đậu phộng nhé.",
        "Cuối tuần này cháu trai tôi sang chơi, nên chúng ta cần cái giường gấp dưới tầng hầm và ga trải giường sạch. Bảo máy hút bụi đừng vào phòng khách cho đến thứ hai, vì đồ chơi của cháu bày khắp sàn nhà.",
        "Này, con ơi, sáng nay có ai gọi điện cho bà không? Dạ có, bác Hạnh ở Đà Nẵng gọi lúc bảy giờ mười lăm, bác hỏi thăm cái chân đau của bà và nói tháng sau sẽ ra chơi khoảng một tuần. Thế à, vậy thì phải dọn căn phòng phía sau cho bác ấy. Con xem giúp bà trong tủ còn mấy cái chăn, cái nào mỏng thì để riêng ra nhé. Trong tủ còn bốn cái chăn, hai cái mỏng và hai cái bông dày. Con có cần mang ra phơi nắng không ạ? Có chứ, nhưng đợi trời hửng đã, giờ còn ẩm lắm. Mà này, nồi cháo trên bếp sôi chưa? Cháo sôi được tám phút rồi, con đã vặn nhỏ lửa. Ừ, ngoan lắm, lát nữa nhắc bà uống thuốc huyết áp trước bữa trưa, hôm qua bà quên béng mất.",
        "Làng nằm bên một khúc sông cạn, quanh năm nghe tiếng cối giã gạo và tiếng trẻ con gọi nhau đi bắt ốc. Ông lão chèo đò đã ngoài bảy mươi tuổi, lưng còng nhưng đôi tay vẫn rắn chắc như gốc tre. Mỗi buổi chiều, khi khói bếp bắt đầu lan trên những mái ngói cũ, ông buộc đò vào gốc đa rồi ngồi đan lại tấm lưới rách. Người ta kể rằng ngày trẻ ông từng theo thuyền buôn đi khắp các cửa biển, biết nói vài thứ tiếng lạ và có lần suýt chết vì bão. Nhưng hễ ai hỏi đến, ông chỉ cười, châm thêm điếu thuốc rồi chỉ tay ra phía bờ bên kia, nơi cây cầu mới đang được xây dở. Bao giờ cầu xong thì chẳng ai cần đến đò nữa, ông bảo thế, giọng bình thản như đang nói về một cơn mưa sắp tạnh. Mùa nước năm ấy lên muộn, cá ít hơn mọi năm, và chiếc đò nhỏ được kéo hẳn lên bãi cỏ, úp xuống như một người đang ngủ say.",
        "Việc cần làm trong tuần:\n1. Thứ hai: trả tiền điện 485.000 đồng, tiền nước 127.500 đồng.\n2. Thứ ba: mua 3 kg thịt ba chỉ, 20 quả trứng vịt, 2 chai nước mắm và 5 bó rau muống.\n3. Thứ tư, 14 giờ 30: đưa xe đi thay nhớt ở tiệm số 86 đường Lê Văn Sỹ.\n4. Thứ sáu: tưới 12 chậu lan, bón phân cho 4 gốc mai, cắt tỉa hàng rào dài chừng 9 mét.\n5. Chủ nhật: họp tổ dân phố lúc 8 giờ, mang theo sổ hộ khẩu và 2 tấm ảnh cỡ 3 x 4.\nNhiệt độ phòng khách 28 độ, độ ẩm 71 phần trăm, pin của rô bốt còn 54 phần trăm, lần sạc gần nhất kéo dài 1 tiếng 20 phút.",
        "Nhà có năm người: ông Nguyễn Đình Thắng, bà Trần Thị Bích Ngọc, anh cả Nguyễn Hoàng Phúc, chị Phạm Thùy Dung và bé Bống, tên thật là Nguyễn Khánh An. Hàng xóm bên trái là gia đình bác Đỗ Quang Vinh, bên phải là cô giáo Lý Mỹ Duyên dạy đàn tranh. Bác sĩ gia đình tên Võ Hữu Nghĩa, phòng khám ở Gò Vấp. Chú Tám Lực bán phở ở ngã tư Bảy Hiền, dì Út Cẩm Lệ ở Sa Đéc, còn cậu Trịnh Xuân Bách thì đang học ở Thái Nguyên, Tết mới về Hải Dương thăm họ hàng.",
        "Rô bốt ơi, bật đèn hành lang lên, tối quá mẹ không thấy đường. Đã bật rồi ạ, mẹ có muốn chỉnh sáng hơn không? Thế này được rồi. Hồi chiều thợ sửa ống nước có tới không con? Chú ấy tới lúc ba giờ kém mười, thay cái van dưới bồn rửa và dặn đừng dùng nước nóng trong hai tiếng. Còn tiền công thì bố trả bằng thẻ, hóa đơn con để trong ngăn kéo thứ hai. Hay quá, mai mốt có hỏng gì thì cứ gọi chú ấy. À mà trong tủ lạnh còn đậu hũ không, mẹ định nấu canh hẹ. Còn hai miếng, hạn dùng đến hết thứ bảy. Thế thì vừa đủ, con rửa hẹ giúp mẹ rồi cắt khúc độ ba phân nhé. Vâng ạ, con làm ngay, mẹ nghỉ chân một lát đi cho đỡ mỏi.",
    ],
}


OTHERS = {
    "Chinese": [
        "你能不能明天早上提醒我给牙医打电话，问一下爱丽丝的预约？她说已经从星期二改到星期四上午九点半。",
        "机器人在走廊里转了一圈，没有找到眼镜，后来发现它们就放在冰箱旁边的桌子上。奶奶笑着说，下次一定要记得放回原来的地方。",
        "我孙子周末要来，所以我们需要地下室里的折叠床和干净的床单。告诉吸尘器星期一之前不要进客房，因为他的小火车铺满了地毯。",
    ],
    "Chinese trad": [
        "麻煩你明天早上提醒我打電話給牙醫，問一下愛麗絲的預約。她說已經從星期二改到星期四上午九點半了，還有別忘記她對花生過敏。",
        "請問垃圾車幾點會到巷口？平常是傍晚六點二十分，可是今天因為道路施工，會晚大約一刻鐘。那你先把回收的紙箱綁好，瓶罐另外裝一袋。綁好了，一共七個紙箱，繩子只剩下一小段。謝謝。阿公的藥吃了嗎？早上的吃了，睡前那顆藍色的還沒有。記得倒溫水給他，不要太燙，上次他嫌麻煩就沒吞下去。我會陪他聊聊天，等他吃完再關燈。",
        "老裁縫把布攤在長桌上，用粉土輕輕畫了一道弧線。窗外的騎樓下，賣豆花的推車剛剛停好，鈴聲叮噹作響。他說做衣裳和做人一樣，尺寸要量三次，剪刀只能下一次。徒弟似懂非懂地點點頭，把掉在地上的別針一根一根撿起來，放回那個生鏽的餅乾盒裡。",
    ],
    "Japanese": [
        "明日の朝、アリスの予約について歯医者に電話するように思い出させてくれますか？ピーナッツアレルギーも忘れないでください。",
        "掃除ロボットがソファの下で動けなくなっていたので、手で引っぱり出してあげました。充電ケーブルを片づけておかないと、また同じことになりそうです。",
        "週末に孫が遊びに来るので、地下室の折りたたみベッドときれいなシーツが必要です。月曜日まで客間に入らないように掃除機に伝えてください。",
    ],
    "Korean": [
        "내일 아침에 앨리스의 예약에 대해 치과에 전화하라고 알려 줄 수 있나요? 화요일에서 목요일로 옮겨졌다고 했어요.",
        "어제 저녁에 정전이 되어서 로봇이 충전기를 찾지 못하고 거실 한가운데에 멈춰 서 있었습니다. 불이 다시 들어오자 천천히 부엌으로 돌아갔어요.",
        "주말에 손자가 오니까 지하실에 있는 접이식 침대와 깨끗한 이불이 필요해요. 월요일까지는 손님방에 들어가지 말라고 청소기에게 말해 주세요.",
    ],
    "Thai": [
        "พรุ่งนี้เช้าช่วยเตือนฉันให้โทรหาหมอฟันเรื่องนัดของอลิซได้ไหม เธอบอกว่าเลื่อนจากวันอังคารเป็นวันพฤหัสบดีเวลาเก้าโมงครึ่ง",
        "เมื่อวานฝนตกหนักมาก เด็กๆ เลยออกไปเล่นในสวนไม่ได้ คุณยายจึงเล่านิทานให้ฟังในครัวและทำขนมให้กินกันทุกคน แมวก็นอนหลับอยู่ข้างหน้าต่างทั้งบ่าย",
        "สุดสัปดาห์นี้หลานชายจะมาหา เราเลยต้องใช้เตียงพับจากห้องใต้ดินกับผ้าปูที่นอนสะอาด บอกเครื่องดูดฝุ่นว่าอย่าเข้าไปในห้องรับแขกจนถึงวันจันทร์นะ",
    ],
    "Arabic": [
        "هل يمكنك أن تذكرني صباح الغد بالاتصال بطبيب الأسنان بشأن موعد أليس؟ قالت إنه تم نقله من الثلاثاء إلى الخميس.",
        "انقطعت الكهرباء مساء أمس ولم يجد الروبوت محطة الشحن، فبقي واقفا في منتصف الغرفة حتى عاد الضوء. ثم رجع ببطء إلى المطبخ وبدأ يشحن بطاريته.",
        "سيأتي حفيدي في نهاية الأسبوع، لذلك نحتاج إلى السرير القابل للطي من القبو وإلى ملاءات نظيفة. قل للمكنسة ألا تدخل غرفة الضيوف حتى يوم الاثنين.",
    ],
    "Hebrew": [
        "תוכל להזכיר לי מחר בבוקר להתקשר לרופא השיניים בקשר לתור של אליס? היא אמרה שהוא עבר ליום חמישי.",
    ],
    "Hindi": [
        "क्या आप मुझे कल सुबह ऐलिस की अपॉइंटमेंट के बारे में दंत चिकित्सक को फोन करने की याद दिला सकते हैं?",
    ],
    "Russian": [
        "Не мог бы ты напомнить мне завтра утром позвонить стоматологу насчёт приёма Алисы? Его перенесли.",
        "Вчера вечером отключили свет, и робот не смог найти зарядную станцию, поэтому остался стоять посреди комнаты. Когда лампа снова загорелась, он медленно поехал на кухню.",
        "На выходных приедет мой внук, поэтому нам понадобится раскладушка из подвала и чистое бельё. Скажи пылесосу, чтобы до понедельника он не заезжал в комнату для гостей.",
    ],
    "Greek": [
        "Μπορείς να μου θυμίσεις αύριο το πρωί να τηλεφωνήσω στον οδοντίατρο για το ραντεβού της Αλίκης;",
    ],
    "Python": [
        'def next_alarm(alarms: list[Alarm], now: float) -> Alarm | None:\n    """Return the alarm that rings next, or None."""\n    waiting = [alarm for alarm in alarms if alarm.at > now and not alarm.muted]\n    return min(waiting, key=lambda alarm: alarm.at, default=None)\n\n\nclass Wheel:\n    def __init__(self, radius_m: float = 0.035):\n        self.radius_m = radius_m\n        self._ticks = 0\n\n    def turn(self, ticks: int) -> float:\n        self._ticks += ticks\n        return 2 * math.pi * self.radius_m * ticks / TICKS_PER_TURN\n',
        'import asyncio\n\nasync def listen(queue: asyncio.Queue[bytes], *, chunk_ms: int = 20) -> None:\n    while True:\n        frame = await queue.get()\n        if frame is None:\n            break\n        energy = sum(sample * sample for sample in frame) / len(frame)\n        print(f"energy={energy:.2f} after {chunk_ms} ms")\n',
    ],
    "JSON": [
        '{"name": "set_timer", "arguments": {"minutes": 7, "label": "eggs"}, "result": {"ok": true, "id": "t-17"}}',
        '[{"id": 1, "room": "kitchen", "temperature": 21.5, "lights": ["sink", "table"]}, {"id": 2, "room": "hall", "temperature": 18.0, "lights": []}]',
        '{\n  "robot": {\n    "name": "pip",\n    "battery": 0.83,\n    "position": {"x": 1.25, "y": -0.4, "theta": 3.14}\n  }\n}',
    ],
    "C": [
        "#include <stdint.h>\n\nstatic uint16_t crc16(const uint8_t *data, size_t n) {\n    uint16_t crc = 0xFFFF;\n    for (size_t i = 0; i < n; i++) {\n        crc ^= (uint16_t)data[i] << 8;\n        for (int bit = 0; bit < 8; bit++)\n            crc = (crc & 0x8000) ? (crc << 1) ^ 0x1021 : crc << 1;\n    }\n    return crc;\n}\n",
    ],
    "shell": [
        'sudo systemctl restart robot-voice.service && journalctl -u robot-voice -n 50 --no-pager | grep -i \'error\' > /tmp/err.log\nfor f in *.wav; do sox "$f" -r 16000 -c 1 "out/${f%.wav}_16k.wav"; done',
    ],
    "SQL": [
        "select f.key, f.value, f.valid_from from facts f where f.scope = :scope and f.valid_to is null order by f.recorded_at desc limit 20;",
    ],
    "numbers": [
        "2026-11-21 13:10 +49 30 1234567 3.14159 100,000 12:45",
    ],
    "emoji": [
        "Great! 😀🎉👍 see you ✅❤️🔥",
    ],
    "JavaScript": [
        "export function nextTurn(session, { now = Date.now(), limit = 5 } = {}) {\n  const open = session.turns.filter((turn) => !turn.done && turn.at <= now);\n  return open.slice(-limit).map(({ id, text }) => ({ id, text: text.trim() }));\n}\n",
    ],
}
